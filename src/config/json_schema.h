// The schema for editors. Not our own check, which says more (load in config.h).
#pragma once

#include <string>

namespace fourfold::config {

/// A JSON Schema (draft 7) of configuration files: editors with YAML support complete, explain and
/// underline with it. It takes every file that load() takes; relations between keys are not in it.
std::string json_schema();

}  // namespace fourfold::config
