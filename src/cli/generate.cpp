#include "generate/generate.h"

#include <cmath>
#include <cstdio>
#include <iostream>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/stopwatch.h"
#include "base/units.h"
#include "checkpoint/load_model.h"
#include "cli/commands.h"
#include "cli/generate_pictures.h"
#include "config/uses.h"
#include "generate/prompt.h"
#include "job/job.h"
#include "job/settle.h"
#include "model/model.h"
#include "run/executor.h"
#include "rundir/trained_model.h"
#include "screen/print.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::cli {
namespace {

std::string read_prompt(const std::string& path) {
  if (path != "-") return read_file(path);
  std::string text((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  if (std::cin.bad())
    throw UserError(ExitCode::bad_data,
                    "standard input: cannot be read; give the prompt as a file");
  return text;
}

generate::SampleSpec sample_spec(const GenerateArguments& arguments, const config::Config& config) {
  generate::SampleSpec spec = config.sample_spec();
  spec.capacity = 0;  // what the program for the text has
  if (arguments.prompt) spec.prompt = *arguments.prompt;
  if (!arguments.prompt_file.empty()) spec.prompt = read_prompt(arguments.prompt_file);
  if (arguments.tokens) spec.tokens = *arguments.tokens;
  if (arguments.temperature) spec.temperature = *arguments.temperature;
  if (arguments.top_k) spec.top_k = *arguments.top_k;
  if (arguments.top_p) spec.top_p = *arguments.top_p;
  if (arguments.seed) spec.seed = *arguments.seed;
  spec.stops_at_end = !arguments.ignore_eos;
  if (!(spec.top_p > 0 && spec.top_p <= 1))
    throw UserError(ExitCode::bad_config,
                    format("--top-p {}: expected a number above 0 and at most 1, which samples "
                           "among all tokens",
                           spec.top_p));
  if (!(spec.temperature >= 0 && std::isfinite(spec.temperature)))
    throw UserError(
        ExitCode::bad_config,
        format("--temperature {}: expected a number at least 0, which takes the likeliest token",
               spec.temperature));
  return spec;
}

/// Prints the prompt, then the text as it comes.
void write_sample(const GenerateArguments& arguments, const generate::SampleSpec& spec,
                  const tokenizer::Tokenizer& tokenizer, run::Executor& executor,
                  std::int64_t number) {
  const Stopwatch writing_time;
  screen::print_text(spec.prompt);
  const generate::Writing writing = generate::generate(
      spec, tokenizer, executor,
      [](std::string_view piece) {
        screen::print_text(piece);
        std::fflush(stdout);
      },
      static_cast<std::uint32_t>(number - 1),
      arguments.cache ? generate::Cache::keep : generate::Cache::compute_again);
  screen::print("\n");
  if (!arguments.stats) return;
  std::fflush(stdout);
  const double time_s = writing_time.seconds();
  std::fprintf(stderr, "%s",
               format("sample {}: {} tokens in {}, {:.1f} tokens/s{}\n", number, writing.tokens,
                      format_duration(time_s), static_cast<double>(writing.tokens) / time_s,
                      writing.ended ? ", to the end of the document" : "")
                   .c_str());
}

/// Refuses options for what the model does not make.
void refuse(std::initializer_list<std::pair<const char*, bool>> given, const char* of,
            const char* makes) {
  for (const auto& [option, is_given] : given)
    if (is_given)
      throw UserError(ExitCode::bad_config, format("{} is an option for {}, but the model of this "
                                                   "run makes {}; leave it out",
                                                   option, of, makes));
}

void write_texts(const GenerateArguments& arguments, const rundir::TrainedModel& model) {
  refuse({{"--output", !arguments.output.empty()},
          {"--each", !arguments.folder.empty()},
          {"--steps", arguments.steps.has_value()},
          {"--sampler", arguments.sampler.has_value()},
          {"--eta", arguments.eta.has_value()},
          {"--class", arguments.label.has_value()}},
         "pictures", "texts");
  const auto tokenizer =
      tokenizer::tokenizer_from_text(model.text_tokenizer(), model.tokenizer_place);
  const generate::SampleSpec spec = sample_spec(arguments, model.config);
  // An error comes before the prompt is printed.
  const bool is_given = arguments.prompt || !arguments.prompt_file.empty();
  const auto cut = generate::cut_of_prompt(
      spec, *tokenizer, model::longest_text(model.config.model()),
      is_given ? "the prompt" : "sample.prompt of the run (give another with --prompt)");
  if (cut) screen::tell(*cut);
  const auto tokens =
      static_cast<std::int64_t>(tokenizer->encode(spec.prompt, "the prompt").size());
  const job::Job job =
      job::prepare(job::settle(config::for_text(model.config, {arguments.threads, arguments.device},
                                                1 + tokens + spec.tokens),
                               {}),
                   {.graphs = job::Graphs::generation});
  job::require_device(job.device);
  job::check_memory(job);

  const auto backend = job::make_backend(job);
  run::Executor executor(job.bundle(), *backend);
  checkpoint::load_model(*model.parameters, job.bundle().at(op::ProgramKind::prefill),
                         [&](const program::Buffer& b) { return executor.bytes(b); });
  if (arguments.sample)
    return write_sample(arguments, spec, *tokenizer, executor, *arguments.sample);
  const std::int64_t samples = arguments.samples.value_or(1);
  for (std::int64_t number = 1; number <= samples; ++number) {
    if (samples > 1)
      screen::print("%s=== sample %lld of %lld ===\n", number == 1 ? "" : "\n",
                    static_cast<long long>(number), static_cast<long long>(samples));
    write_sample(arguments, spec, *tokenizer, executor, number);
  }
}

}  // namespace

void generate(const GenerateArguments& arguments) {
  const rundir::TrainedModel model = rundir::open_trained_model(arguments.run_dir, arguments.step);
  if (model.config.family().makes != model::Makes::pictures) return write_texts(arguments, model);
  refuse({{"--prompt", arguments.prompt.has_value()},
          {"--prompt-file", !arguments.prompt_file.empty()},
          {"--tokens", arguments.tokens.has_value()},
          {"--temperature", arguments.temperature.has_value()},
          {"--top-k", arguments.top_k.has_value()},
          {"--top-p", arguments.top_p.has_value()},
          {"--sample", arguments.sample.has_value()},
          {"--ignore-eos", arguments.ignore_eos},
          {"--no-cache", !arguments.cache},
          {"--stats", arguments.stats}},
         "texts", "pictures");
  generate_pictures(arguments, model);
}

}  // namespace fourfold::cli
