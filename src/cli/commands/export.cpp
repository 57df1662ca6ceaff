
#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "checkpoint/model_files.h"
#include "cli/command.h"
#include "cli/shared_options.h"
#include "config/print.h"
#include "interop/export_model.h"
#include "rundir/run_files.h"
#include "rundir/trained_model.h"
#include "screen/print.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_files.h"

namespace fourfold::cli {
namespace {

struct ExportArguments {
  std::string run_dir, output, format = "hf", dtype, max_shard_size;
  std::optional<std::int64_t> step;
  bool untie = false;
};

void list_options(OptionList& options, ExportArguments& given) {
  add_run_option(options, given.run_dir);
  options.add("-o,--output", given.output, "A new folder", {.is_required = true});
  options.add("--format", given.format,
              "hf: for transformers, a GPT2LMHeadModel or a LlamaForCausalLM and its like; "
              "safetensors: one file with our names, and what `generate` needs",
              {.shows_default = true, .one_of = "hf,safetensors"});
  add_step_option(options, given.step);
  options.add("--dtype", given.dtype, "fp32, bf16 or fp16 (default: fp32; safetensors: as trained)",
              {.one_of = "fp32,bf16,fp16"});
  options.add("--untie", given.untie,
              "Write the output head too where it is the token embedding, for readers that want "
              "it");
  options.add("--max-shard-size", given.max_shard_size,
              "Split into files of at most so many bytes, such as 5GB (default: one file)");
}

using checkpoint::ElementType;

std::optional<ElementType> element_type(const std::string& word) {
  if (word == "fp32") return DType::f32;
  if (word == "fp16") return ElementType::Kind::f16;
  if (word == "bf16") return DType::bf16;
  return std::nullopt;
}

std::int64_t parse_size(const std::string& text) {
  if (const auto bytes = parse_bytes(text); bytes && *bytes > 0) return *bytes;
  throw UserError(ExitCode::bad_config,
                  format("--max-shard-size {}: expected a size such as 5GB, 500MB or 2GiB", text));
}

std::int64_t num_parameters(const checkpoint::StoredModel& model) {
  std::int64_t count = 0;
  for (const auto& tensor : model.tensors()) count += tensor.shape.elements();
  return count;
}

/// The family of Hugging Face that has such models.
const interop::HubFamily& hub_family(const rundir::TrainedModel& model) {
  if (const auto* family = interop::hub_family_of(model.config.model())) return *family;
  throw UserError(ExitCode::bad_config,
                  format("--format hf writes models that transformers has, and {} is of model.kind "
                         "= {}; leave it out",
                         model.path, config::kind_word(model.config.kind)));
}

/// What is to be said of its tokenizer.
std::vector<std::string> export_hf(const ExportArguments& arguments, rundir::TrainedModel& model,
                                   const AtomicFolder& folder) {
  const auto tokenizer =
      tokenizer::tokenizer_from_text(model.text_tokenizer(), model.tokenizer_place);
  hub_family(model);
  interop::HubOptions options;
  options.dtype = element_type(arguments.dtype).value_or(DType::f32);
  options.untie = arguments.untie;
  options.end_of_text = tokenizer->end_of_document().value_or(-1);
  options.ends_of_text = tokenizer->ends_of_text();
  options.begin_of_text = tokenizer->begin_of_text().value_or(-1);
  if (!arguments.max_shard_size.empty())
    options.max_file_bytes = parse_size(arguments.max_shard_size);
  interop::export_hub(*model.parameters, model.config.model(), options, folder.staging());
  return tokenizer::write_tokenizer_files(model.tokenizer, folder);
}

/// What `import` and `generate` of Fourfold read.
void export_own(const ExportArguments& arguments, rundir::TrainedModel& model,
                const AtomicFolder& folder) {
  if (arguments.untie || !arguments.max_shard_size.empty())
    throw UserError(ExitCode::bad_config,
                    "--untie and --max-shard-size go with --format hf only; leave them out");
  interop::export_safetensors(
      *model.parameters, element_type(arguments.dtype),
      join_path(folder.staging(), std::string(checkpoint::single_model_file)));
  config::mark_followers(model.config);
  folder.write(rundir::RunFiles::config, config::shown_yaml(model.config));
  if (!model.tokenizer.empty()) folder.write(rundir::RunFiles::tokenizer, model.tokenizer + "\n");
}

void export_model(const ExportArguments& arguments) {
  rundir::TrainedModel model = rundir::open_trained_model(arguments.run_dir, arguments.step);
  AtomicFolder folder(arguments.output);
  std::vector<std::string> notes;
  if (arguments.format == "hf")
    notes = export_hf(arguments, model, folder);
  else
    export_own(arguments, model, folder);
  folder.commit();
  const bool is_hub = arguments.format == "hf";
  const model::Spec spec = model.config.model();
  screen::print("%s: %s parameters of %s%s\n", arguments.output.c_str(),
                format_count(static_cast<double>(num_parameters(*model.parameters))).c_str(),
                model.origin.c_str(),
                is_hub ? format("; transformers reads them with {}.from_pretrained",
                                hub_family(model).class_of(spec).name)
                             .c_str()
                       : "");
  for (const std::string& note : notes) screen::print("note: %s\n", note.c_str());
  if (is_hub && interop::has_added_biases(spec))
    screen::print(
        "%s: %s has biases that the model has not: they are written as zeros, which compute the "
        "same\n",
        arguments.output.c_str(), std::string(hub_family(model).class_of(spec).name).c_str());
}

}  // namespace

void add_export(Commands& commands) {
  commands.add({"export", After{"report"}, "Write the model of a run for other tools",
                "export runs/gpt-quickstart -o gpt-quickstart-hf --dtype bf16"},
               list_options, export_model);
}

}  // namespace fourfold::cli
