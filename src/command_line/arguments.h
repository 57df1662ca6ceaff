// What each command is told: the words of a command line as values, and what a command does with
// them. Not what `train` is told: training_run/train.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/launcher.h"
#include "job/config_source.h"
#include "model/model_spec.h"

namespace fourfold::command_line {

/// Continues a text with the weights of a run, which goes to standard output as it comes; or makes
/// pictures, which go to files.
struct GenerateArguments {
  std::string run_dir;
  std::optional<std::int64_t> step;  // of a checkpoint; none: the final weights
  std::optional<std::string> prompt;
  std::string prompt_file;  // "-": standard input; empty: none
  std::optional<std::int64_t> tokens, top_k;
  std::optional<double> temperature, top_p;
  std::optional<std::uint64_t> seed;
  std::optional<std::int64_t> samples;  // numbers 1 to that, ...
  std::optional<std::int64_t> sample;   // ... or only this one of them
  bool ignore_eos = false;              // writes on after the end of a document
  bool cache = true;                    // of keys and values
  bool stats = false;                   // tokens per second, on standard error
  std::string output, folder;           // for pictures: a PNG of all, and one of each
  std::optional<std::int64_t> steps;    // of the sampler
  std::optional<std::string> sampler;   // "ddpm", "ddim"
  std::optional<double> eta;
  std::optional<std::int64_t> label;  // the class of the pictures
  int threads = 0;
  std::string device = "auto";  // as run.device
  comm::Variable variable;      // of the environment
};

/// Prints how well a model predicts a text: loss, perplexity, or each token's log-probability; or
/// pictures: the bound on their bits.
struct EvalArguments {
  std::string run_dir;
  std::string data;                      // a file or folder of pictures
  std::optional<std::int64_t> pictures;  // at most so many of them
  std::string text;                      // a file
  std::optional<std::int64_t> step;      // of a checkpoint; none: the final weights
  std::optional<std::int64_t> window;    // tokens seen together; none: data.seq_length
  bool json = false;
  std::string logits;  // a new safetensors file; empty: none
  int threads = 0;
  std::string device = "auto";  // as run.device
  comm::Variable variable;      // of the environment
};

/// Writes the model of a run in the files of other tools.
struct ExportArguments {
  std::string run_dir;
  std::string output;                // a new folder
  std::string format = "hf";         // or "safetensors"
  std::optional<std::int64_t> step;  // of a checkpoint; none: the final weights
  std::string dtype;                 // "fp32", "bf16", "fp16"; empty: fp32, safetensors: as stored
  bool untie = false;                // hf: the head of a tied model is written too
  std::string max_shard_size;        // hf: "5GB"; empty: one file
};

/// Makes a folder that `generate` and run.init_from take from a model of Hugging Face.
struct ImportArguments {
  std::string folder;
  std::string output;  // a new folder
};

/// Makes a set of tokens from texts, for data.format = megatron.
struct TokenizeArguments {
  std::vector<std::string> inputs;  // files and folders
  std::string output;               // PREFIX of .bin, .idx, .json
  std::string tokenizer, tokenizer_path;
  std::string field = "text";  // of JSON lines
  int jobs = 0;                // threads; 0: one a core
  bool append_eod = false, overwrite = false;
  comm::Variable variable;  // of the environment
};

/// Learns a tokenizer from texts.
struct TrainTokenizerArguments {
  std::vector<std::string> inputs;  // files and folders
  std::string output;               // the .model file
  std::int64_t vocab_size = 0;
  double coverage = 0.9995;        // share of the characters with a token of their own
  std::int64_t sample_mib = 1024;  // of text that is learnt from
  std::string field = "text";      // of JSON lines
  int threads = 1;                 // the model says how many; 0: one a core
  bool overwrite = false;
  comm::Variable variable;  // of the environment
};

/// Prints what a file or folder of data is and what it holds.
struct InspectArguments {
  std::string path;
  std::string field = "text";       // of JSON lines
  std::string bad_images = "stop";  // of pictures; or "skip:N"
};

/// Writes a page that shows runs, and compares several.
struct ReportArguments {
  std::vector<std::string> run_dirs;
  std::string output = "report.html";
};

/// Prints where the time of the steps in a trace went.
struct TraceSummaryArguments {
  std::string path;    // a trace, or the folder of a run that has one
  std::string beside;  // a trace of the same job that simulate wrote; empty: none
  bool json = false;   // all numbers
};

/// Draws when each rank did its tasks of a step.
struct TraceTasksArguments {
  std::string path;
  std::optional<std::int64_t> step;  // none: the last one
};

/// Prints the programs of one rank of a configuration, or one of them; or what they must compute.
struct ProgramArguments {
  job::ConfigSource config;
  std::string program = "train";  // or "all"
  std::int64_t rank = 0;
  bool of_job = false;                // all programs of all ranks, each class of ranks once
  bool is_of_specification = false;   // the serial program, in place of the compiled ones
  std::string after;                  // the pass whose result is printed; empty: the last one
  std::vector<std::string> without;   // passes that are left out
  std::optional<std::int64_t> ranks;  // of the job; none: as many as the grid needs
};

/// Prints what a run would be: model by part, batch, grid, local shapes, memory, what the ranks
/// send each other, work of a step. With a machine: every legal grid priced on it, the best first.
/// Or solves an assignment problem.
struct PlanArguments {
  job::ConfigSource config;
  std::optional<std::int64_t> ranks;
  std::string machine;                    // a name, or the path of a file; empty: none
  std::optional<std::int64_t> nodes;      // in place of ranks
  std::optional<std::int64_t> top;        // so many grids; none: 10
  std::string tokens;                     // to train on, as "300B"; empty: not asked
  std::optional<std::int64_t> simulated;  // so many of the best; none: as many as are shown
  std::vector<std::int64_t> explain;      // two places of the list; empty: the list
  std::string format = "text";            // or "json"
  std::string output;                     // a file for the layout; empty: none
  std::string problem_output;             // a file for the problem of the layouts; empty: none
  std::optional<std::int64_t> chosen;     // the place of the list that both are of; none: 1
  std::string problem;                    // a file that is solved in place of all else; empty: none
  std::string solver = "elimination";     // of solve::solvers()
};

/// When a job is run over a field and compared with its specification.
enum class ProveEqual : std::uint8_t { where_soon_done, always, never };

/// Verifies the programs of all ranks of a configuration, or of a text that `program` printed: by
/// rules and, where there is a configuration, against what it says that a job computes. Faults end
/// with exit code 70 for compiled programs (our bug) and 2 for a text.
struct VerifyArguments {
  job::ConfigSource config;  // of a text: what it is compared with, if there are files
  std::optional<std::int64_t> ranks;
  std::string program_text;  // a file; empty: compile the configuration
  ProveEqual equal = ProveEqual::where_soon_done;
};

/// Prices the training step of a configuration, or of a job that `program --job` printed, on a
/// described cluster, without running it.
struct SimulateArguments {
  job::ConfigSource config;
  std::string machine;  // a known name, or a file; empty: refused with the names there are
  std::optional<std::int64_t> ranks;
  std::string program_text;  // a file; empty: compile the configuration
  std::string trace;         // a file for the timeline; empty: none
  std::string sweep;         // "ranks=64,128"; empty: one number of ranks
  bool all_ranks = false;    // are followed, not one of each class
  bool is_json = false, is_verbose = false;
};

/// What `bench reshard` moves: the paper's cases, or a pair of meshes.
struct ReshardArguments {
  std::vector<std::int64_t> cases;  // of the paper's nine; empty: all, or the pair
  std::string from, from_mesh, to, to_mesh;
  std::vector<std::int64_t> shape;
  std::string bytes = "4MiB";           // of the tensor of a case, about
  std::vector<std::string> strategies;  // empty: all
  std::string ordering = "best";
  std::string chunks = "auto";
  std::string rate = "10 Gbit/s", latency = "50 us";  // of a host's port, for the plan
  std::string inside = "4 GB/s";                      // within a host, for the plan
  bool is_free = false;                               // ranks of a host do not take turns
  bool is_plan = false;                               // printed, not carried out
};

/// What `bench collectives` measures.
struct CollectivesArguments {
  std::string grid;                // "2x2x1x2": x, y, z, data; empty: groups of all ranks alone
  std::vector<std::string> kinds;  // of machine::measured_kinds(); empty: all
  std::vector<std::string> sizes;  // "64KiB"; empty: from 4 KiB to 16 MiB
  std::string machine;             // a known name, or a file, for its links; empty: none
};

/// Measures kernels alone, or the machine's ceilings, and prints a table.
struct BenchArguments {
  std::string what;  // "gemm", "attention", "kernels", "copy", "step", "machine", "reshard", ...
  job::ConfigSource config;     // no file: the steps of a small and of a large GPT
  int threads = 0;              // 0: as the configuration says
  std::string dtype;            // "fp32", "fp64"; empty: as the configuration says
  double seconds = 0.1;         // for each kernel
  std::string device = "cpu";   // or "cuda"
  std::string output;           // a table for run.kernel_table, or a cluster's file; empty: none
  std::int64_t ranks = 0;       // machine, collectives: threads that are ranks; 0: one a core
  bool is_job = false;          // ranks are processes of a launcher
  bool is_quick = false;        // machine, collectives: sizes that take no time
  std::string format = "text";  // step, reshard, collectives: or "json"
  ReshardArguments reshard;
  CollectivesArguments collectives;
  comm::LauncherFacts launcher;
  comm::Variable variable;
};

/// Lists the clusters that are known by name, or shows one.
struct MachinesArguments {
  std::string machine;          // a name, or the path of a file; empty: the list
  std::string format = "text";  // or "json"
};

/// Prints a configuration with every key and the origin of its value; a folder stands for the run
/// in it.
struct ConfigShowArguments {
  job::ConfigSource config;
  bool plain = false;  // without origins
};

/// Prints the keys in which two configurations differ, with both origins.
struct ConfigDiffArguments {
  std::string left, right;  // files, or folders of runs
};

/// Prints what a key means, a section's keys, or all.
struct ConfigExplainArguments {
  std::string key;        // or a section; empty: all
  bool markdown = false;  // the page of all keys instead
};

/// Writes a commented configuration to start from.
struct ConfigNewArguments {
  std::string model{model::families.front().name};
  std::optional<std::string> size;  // none: the usual one of the model
  std::string output;               // empty: standard output
};

/// Prints whether this build and this machine can work, or what the ranks of a job find around
/// them. Errors: UserError(environment) where they cannot.
struct DoctorArguments {
  std::string color = "auto";
  bool is_job = false;  // all ranks that a launcher started look together
  comm::LauncherFacts launcher;
  comm::Variable variable;  // of the environment
};

/// Lists, describes, verifies and thins out the checkpoints of a run.
struct CkptArguments {
  std::string path;                  // a run directory, or its folder of checkpoints
  std::optional<std::int64_t> step;  // none: the newest valid one; verify: all
  std::int64_t keep = 3;             // prune: how many stay
  comm::Variable variable;           // of the environment
};

}  // namespace fourfold::command_line
