#include "cli/command_line.h"

#include <cstdio>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/last_resort.h"
#include "cli/command.h"
#include "cli/parse.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

int report_error(ExitCode code, const std::string& message) {
  if (code == ExitCode::stopped && !message.empty())
    screen::print("%s\n", message.c_str());
  else
    screen::report_error(message);
  return static_cast<int>(code);
}

constexpr const char* no_memory =
    "error: out of memory; reduce train.micro_batch_size or the model\n";

/// Runs the chosen subcommand; every way to fail ends here.
int guarded(const std::function<void()>& command) {
  try {
    command();
    std::fflush(stdout);
    return static_cast<int>(ExitCode::done);
  } catch (const UserError& error) {
    return report_error(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return report_out_of_memory(no_memory);
  } catch (const std::exception& error) {
    return report_error(ExitCode::internal, format("internal error: {}\nThis is a bug in Fourfold; "
                                                   "please report it with the configuration.",
                                                   error.what()));
  }
}

void carry_out(int argc, char** argv, const comm::Variable& variable) {
  const std::vector<std::string> line(argv, argv + argc);
  Commands commands({line, variable});
  add_commands(commands);
  if (const Command* chosen = parse(commands, line)) chosen->run();
}

}  // namespace

int run(int argc, char** argv, const comm::Variable& variable) {
  const LastResort last_resort(no_memory);
  try {
    return guarded([&] { carry_out(argc, argv, variable); });
  } catch (const std::bad_alloc&) {
    return report_out_of_memory(no_memory);
  }
}

}  // namespace fourfold::cli
