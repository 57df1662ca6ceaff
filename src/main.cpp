// The process: what must be settled before any library starts, then the command line.
#include <unistd.h>

#include <array>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>

#include "cli/command_line.h"
#include "comm/launcher.h"

namespace {

/// OpenMP threads spin between parallel regions, by default for milliseconds; on a machine with
/// other work that makes a step twenty times slower. libgomp reads the setting when it is loaded,
/// so the process starts once more with it, unless the user chose. 5,000 rounds: a step of the
/// character GPT on two idle cores takes 31 to 42 ms by default, 50 with 0 rounds, 35 to 46 with
/// 5,000; beside one busy process 830 ms with 100,000, 250 with 20,000, 100 with 4,000.
void limit_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "5000", 1);
  // By its own name, which ps then shows; where the file has gone meanwhile, as what runs here.
  // Both return only when they fail, and then all goes on as it was.
  std::array<char, PATH_MAX> path{};
  if (readlink("/proc/self/exe", path.data(), path.size() - 1) > 0) execv(path.data(), argv);
  execv("/proc/self/exe", argv);
}

/// CUDA leads streams to the device through 8 queues unless told otherwise, and streams that share
/// one wait for each other although no program says so: a rank of a pipeline, whose messages wait
/// for other ranks, can have more. 32 is the most (CUDA C++ Programming Guide, environment
/// variables). Read when a context is made.
void keep_cuda_streams_apart() {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

}  // namespace

int main(int argc, char** argv) {
  // A limit on the size of files is an error of the write that met it (EFBIG), with its own
  // message.
  std::signal(SIGXFSZ, SIG_IGN);
  limit_spinning(argv);
  keep_cuda_streams_apart();
  const auto variable = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
  return fourfold::cli::run(argc, argv, variable);
}
