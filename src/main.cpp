// The process: what must be settled before any library starts, then the command line.
#include <unistd.h>

#include <array>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cores.h"
#include "base/file_limit.h"
#include "cli/command_line.h"
#include "comm/launcher.h"
#include "comm/stop_request.h"
#include "kernels/cpu/places.h"

namespace {

/// OpenMP threads spin between parallel regions, by default for milliseconds; on a machine with
/// other work that makes a step twenty times slower. True if that was to be settled: the user did
/// not choose. 5,000 rounds: a step of the character GPT on two idle cores takes 31 to 42 ms by
/// default, 50 with 0 rounds, 35 to 46 with 5,000; beside one busy process 830 ms with 100,000, 250
/// with 20,000, 100 with 4,000.
bool limit_spinning() {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr)
    return false;
  setenv("GOMP_SPINCOUNT", "5000", 1);
  return true;
}

/// OpenMP that is to bind threads binds the first thread of each team to the first place: all ranks
/// of this process to one core, and this thread already, so that no more than one core seems to be
/// there. Rank threads keep to cores of their own without it. True if it was to be settled: OpenMP
/// binds, and now is told not to, and what it may bind to is ours again.
bool unbind_threads() {
  const std::vector<int> cores = fourfold::kernels::cpu::openmp_cores();
  if (cores.empty() || !fourfold::keep_to_cores(cores)) return false;
  for (const char* name : {"OMP_PLACES", "GOMP_CPU_AFFINITY"}) unsetenv(name);
  setenv("OMP_PROC_BIND", "false", 1);
  return true;
}

/// Starts this process once more: libgomp reads its settings when it is loaded.
void start_again(char** argv) {
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
  // A signal that asks for a stop is meant, however early it comes: it waits until a run listens.
  fourfold::comm::hold_stop_signals();
  // A limit on the size of files is an error of the write that met it (EFBIG), with its own
  // message.
  std::signal(SIGXFSZ, SIG_IGN);
  const bool has_settled_spinning = limit_spinning(), has_unbound = unbind_threads();
  if (has_settled_spinning || has_unbound) start_again(argv);
  const bool will_listen = argc > 1 && std::string_view(argv[1]) == "train";
  if (!will_listen) fourfold::comm::release_stop_signals();
  keep_cuda_streams_apart();
  fourfold::raise_file_limit();
  const auto variable = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
  return fourfold::cli::run(argc, argv, variable);
}
