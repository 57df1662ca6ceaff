#include <array>
#include <cstdio>
#include <filesystem>

#include "base/atomic_folder.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/units.h"
#include "checkpoint/model_files.h"
#include "cli/commands.h"
#include "config/config.h"
#include "config/print.h"
#include "data/tokenizer_files.h"
#include "interop/import_gpt2.h"
#include "model/gpt.h"
#include "rundir/run_files.h"
#include "rundir/run_record.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

/// In the place of a text that only the user knows.
constexpr const char* no_text_yet = "TEXT-TO-TRAIN-ON.txt";

std::string quoted(const std::string& text) {
  return Json(text).dump();
}

std::string model_yaml(const model::GptSpec& spec) {
  return format(
      "model:\n  num_layers: {}\n  num_attention_heads: {}\n  hidden_size: {}\n  ffn_hidden_size: "
      "{}\n  max_position_embeddings: {}\n  vocab_size: {}\n  dropout: {}\n  bias: true\n  "
      "tied_head: {}\n  layer_norm_epsilon: {}\n  init_stddev: {}\n",
      spec.num_layers, spec.num_attention_heads, spec.hidden_size, spec.ffn_hidden_size,
      spec.max_position_embeddings, spec.vocab_size, spec.dropout, spec.tied_head,
      spec.layer_norm_epsilon, spec.init_stddev);
}

std::string data_yaml(const data::FoundTokenizer& found, const std::string& run_dir,
                      std::int64_t length) {
  std::string text = format("data:\n  seq_length: {}\n", length);
  if (found.key.empty()) return text + "  format: synthetic\n";
  text += format("  format: text\n  path: {}\n  tokenizer: {}\n", no_text_yet, found.key);
  if (!found.files.empty()) {
    const bool is_one = found.files.size() == 1;
    text += format("  tokenizer_path: {}\n",
                   quoted(is_one ? join_path(run_dir, found.files[0].name) : run_dir));
  }
  return text;
}

/// The configuration from which the model is trained further.
config::Config config_of(const model::GptSpec& spec, const data::FoundTokenizer& found,
                         const std::string& run_dir) {
  const std::string name = std::filesystem::path(absolute_path(run_dir)).filename().string();
  const std::string yaml = format("run:\n  name: {}\n  dir: {}\n", quoted(name), quoted(run_dir)) +
                           model_yaml(spec) +
                           data_yaml(found, run_dir, spec.max_position_embeddings);
  const std::array<std::string, 1> files{"the imported model"};
  return config::load(files, {}, [&](const std::string&) { return yaml; });
}

std::int64_t num_parameters(const model::GptSpec& spec) {
  std::int64_t count = 0;
  for (const auto& part : model::count_parameters(spec)) count += part.parameters;
  return count;
}

void say_what_now(const ImportArguments& arguments, const interop::Gpt2Folder& source,
                  const data::FoundTokenizer& found) {
  const std::string dir = rundir::shell_quoted(arguments.output);
  const model::GptSpec& spec = source.model.spec;
  screen::print("%s: GPT-2 with %s parameters in %lld layer%s, %s\n", arguments.output.c_str(),
                format_count(static_cast<double>(num_parameters(spec))).c_str(),
                static_cast<long long>(spec.num_layers), spec.num_layers == 1 ? "" : "s",
                found.key.empty() ? "without a tokenizer: a prompt is a list of token numbers"
                                  : format("tokenizer {}", found.key).c_str());
  for (const auto* notes : {&source.model.notes, &found.notes})
    for (const std::string& note : *notes) screen::print("note: %s\n", note.c_str());
  screen::print("write    fourfold generate %s --prompt \"%s\" --tokens 50\n", dir.c_str(),
                found.key.empty() ? "0" : "...");
  screen::print(
      "train    fourfold train %s --set run.init_from=%s --set run.name=NAME --set "
      "run.dir=runs/NAME --set data.path=FILE --set optimizer.lr=1e-5%s\n",
      rundir::shell_quoted(join_path(arguments.output, rundir::RunFiles::config)).c_str(),
      dir.c_str(), found.key.empty() ? " --set data.format=..." : "");
}

}  // namespace

void import_model(const ImportArguments& arguments) {
  AtomicFolder folder(arguments.output);
  interop::Gpt2Folder source = interop::open_gpt2_folder(arguments.folder);
  const model::GptSpec& spec = source.model.spec;
  const data::FoundTokenizer found = data::find_tokenizer(arguments.folder, spec.vocab_size);
  const config::Config config = config_of(spec, found, arguments.output);
  interop::import_gpt2(source,
                       join_path(folder.staging(), std::string(checkpoint::single_model_file)));
  folder.write(rundir::RunFiles::config, config::shown_yaml(config));
  folder.write(rundir::RunFiles::tokenizer, found.tokenizer->to_text() + "\n");
  for (const data::FoundTokenizer::File& file : found.files) folder.write(file.name, file.content);
  folder.commit();
  say_what_now(arguments, source, found);
}

}  // namespace fourfold::cli
