// `fourfold bench collectives`: how fast ranks exchange tensors, by kind, group and size, beside
// the links of a described machine.
#pragma once

#include "cli/commands.h"

namespace fourfold::cli {

/// Over threads of this process; with arguments.is_job over the processes of a launcher, between
/// host memories, or between GPUs where arguments.device says so. Prints as it goes, or JSON at the
/// end. Errors: UserError(bad_config) for words that make no sense, UserError(does_not_fit) for
/// more ranks than the machine has, UserError(environment) where GPUs cannot be used.
void bench_collectives(const BenchArguments& arguments);

}  // namespace fourfold::cli
