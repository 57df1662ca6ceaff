// The words of program/, which every file of this room uses.
#pragma once

#include "program/program.h"

namespace fourfold::verify {

using namespace program;

}  // namespace fourfold::verify
