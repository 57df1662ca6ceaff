#include <cstdio>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "checkpoint/model_files.h"
#include "cli/command.h"
#include "config/config.h"
#include "config/print.h"
#include "interop/import_model.h"
#include "job/imported_config.h"
#include "model/model.h"
#include "rundir/run_files.h"
#include "rundir/run_record.h"
#include "screen/print.h"
#include "tokenizer/tokenizer_files.h"

namespace fourfold::cli {
namespace {

struct ImportArguments {
  std::string folder, output;
};

void list_options(OptionList& options, ImportArguments& given) {
  options.add(
      "DIR", given.folder,
      "A folder with config.json and model.safetensors of a GPT-2, Llama, Mistral, Qwen2 or "
      "Qwen3",
      {.is_required = true});
  options.add("-o,--output", given.output, "A new folder, for `generate` and for run.init_from",
              {.is_required = true});
}

std::int64_t num_parameters(const model::Spec& spec) {
  std::int64_t count = 0;
  for (const auto& of : model::count_parameters(spec)) count += of.parameters;
  return count;
}

void say_what_now(const ImportArguments& arguments, const interop::HubFolder& source,
                  const tokenizer::FoundTokenizer& found) {
  const std::string dir = rundir::shell_quoted(arguments.output);
  const model::Spec& spec = source.model.spec;
  screen::print("%s: %s with %s parameters in %s, %s\n", arguments.output.c_str(),
                std::string(source.model.family->title).c_str(),
                format_count(static_cast<double>(num_parameters(spec))).c_str(),
                counted(model::num_layers(spec), "layer").c_str(),
                found.key.empty() ? "without a tokenizer: a prompt is a list of token numbers"
                                  : format("tokenizer {}", found.key).c_str());
  for (const auto* notes : {&source.model.notes, &found.notes})
    for (const std::string& note : *notes) screen::print("note: %s\n", note.c_str());
  if (!source.model.notes.empty() || !found.notes.empty())
    screen::print(
        "again    fourfold import %s -o OTHER, once a file that a note names is corrected\n",
        rundir::shell_quoted(arguments.folder).c_str());
  screen::print("write    fourfold generate %s --prompt \"%s\" --tokens 50\n", dir.c_str(),
                found.key.empty() ? "0" : "...");
  screen::print(
      "train    fourfold train %s --set run.init_from=%s --set run.name=NAME --set "
      "run.dir=runs/NAME --set data.path=FILE --set optimizer.lr=1e-5%s\n",
      rundir::shell_quoted(join_path(arguments.output, rundir::RunFiles::config)).c_str(),
      dir.c_str(), found.key.empty() ? " --set data.format=..." : "");
}

void import_model(const ImportArguments& arguments) {
  AtomicFolder folder(arguments.output);
  if (file_exists(join_path(arguments.folder, rundir::RunFiles::config)))
    throw UserError(
        ExitCode::no_checkpoint,
        format("{} is a run of Fourfold: `generate`, `eval` and run.init_from take it as "
               "it is",
               arguments.folder));
  interop::HubFolder source = interop::open_hub_folder(arguments.folder);
  const model::Spec& spec = source.model.spec;
  const tokenizer::FoundTokenizer found =
      tokenizer::find_tokenizer(arguments.folder, model::data_facts(spec).num_labels);
  const config::Config config =
      config::load_yaml(job::imported_yaml(spec, found, arguments.output), "the imported model");
  interop::import_hub(source,
                      join_path(folder.staging(), std::string(checkpoint::single_model_file)));
  folder.write(rundir::RunFiles::config, config::shown_yaml(config));
  folder.write(rundir::RunFiles::tokenizer, found.tokenizer->to_text() + "\n");
  for (const tokenizer::FoundTokenizer::File& file : found.files)
    folder.write(file.name, file.content);
  folder.commit();
  say_what_now(arguments, source, found);
}

}  // namespace

void add_import(Commands& commands) {
  commands.add(
      {"import", After{"export"}, "Turn a model of Hugging Face into one that Fourfold uses",
       "import gpt-quickstart-hf -o runs/imported"},
      list_options, import_model);
}

}  // namespace fourfold::cli
