// One function a subcommand, each in the file of its name. They return when done and throw
// UserError otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fourfold::cli {

/// Where a configuration comes from: files merged left to right, then --set texts.
struct ConfigSource {
  std::vector<std::string> files;
  std::vector<std::string> sets;
};

/// Trains, evaluates, saves the weights and shows a sample. The run directory must not hold an
/// earlier run.
struct TrainArguments {
  ConfigSource config;
  bool overwrite = false;  // an earlier run's directory may be used again
  bool dry_run = false;    // everything but the training
};
void train(const TrainArguments& arguments);

/// Continues a text with the weights of a run directory; streams to standard output.
struct GenerateArguments {
  std::string run_dir;
  std::optional<std::string> prompt;
  std::optional<std::int64_t> tokens, top_k;
  std::optional<double> temperature;
  std::optional<std::uint64_t> seed;
  int threads = 0;
};
void generate(const GenerateArguments& arguments);

/// Prints the programs of a configuration, or one of them.
struct ProgramArguments {
  ConfigSource config;
  std::string program = "train";  // or "all"
};
void program(const ProgramArguments& arguments);

/// Prints what a run would be: model by part, batch, mesh, memory by class, work of a step.
struct PlanArguments {
  ConfigSource config;
};
void plan(const PlanArguments& arguments);

/// Verifies the programs of a configuration, or of a text that `program` printed. Faults end with
/// exit code 70 for compiled programs (our bug) and 2 for a text.
struct VerifyArguments {
  ConfigSource config;
  std::string program_text;  // a file; empty: compile the configuration
};
void verify(const VerifyArguments& arguments);

/// Checks a configuration and says that it is good.
void config_check(const ConfigSource& source);

}  // namespace fourfold::cli
