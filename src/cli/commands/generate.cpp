#include "generate/generate.h"

#include <unistd.h>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <optional>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/stopwatch.h"
#include "base/units.h"
#include "checkpoint/load_model.h"
#include "cli/command.h"
#include "cli/shared_options.h"
#include "config/uses.h"
#include "data/png.h"
#include "generate/pictures.h"
#include "generate/prompt.h"
#include "job/job.h"
#include "job/settle.h"
#include "model/model.h"
#include "run/executor.h"
#include "rundir/trained_model.h"
#include "screen/print.h"
#include "screen/progress_line.h"
#include "screen/terminal.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::cli {
namespace {

struct GenerateArguments {
  std::string run_dir, prompt_file, device = "auto";
  int threads = 0;
  std::optional<std::int64_t> step, tokens, top_k, samples, sample;
  std::optional<std::string> prompt;
  std::optional<double> temperature, top_p;
  std::optional<std::uint64_t> seed;
  bool ignore_eos = false, no_cache = false, stats = false;
  std::string output, folder;  // of pictures, as what follows
  std::optional<std::int64_t> steps, label;
  std::optional<std::string> sampler;
  std::optional<double> eta;
  comm::Variable variable;
};

void list_options(OptionList& options, GenerateArguments& given) {
  given.variable = options.caller().variable;
  add_run_option(options, given.run_dir);
  add_step_option(options, given.step);
  options.add("--prompt", given.prompt, "Text to continue (default: sample.prompt of the run)");
  options.add("--prompt-file", given.prompt_file,
              "File with the text to continue; -: standard input", {.excludes = "--prompt"});
  options.add("--tokens", given.tokens, "Tokens to generate, fewer where the document ends before",
              {.within = Whole{0, 1000000}});
  options.add("--temperature", given.temperature, "0: always the likeliest token");
  options.add("--top-k", given.top_k, "Sample among the k likeliest tokens; 0: all",
              {.within = Whole{0, 10000000}});
  options.add("--top-p", given.top_p,
              "Sample among the likeliest tokens that have this probability together; 1: all");
  options.add("--seed", given.seed, "Seed of the sampling");
  options.add(
      "--samples", given.samples,
      "Write so many texts, numbered from 1 (default: 1), or make so many pictures (default: "
      "16)",
      {.within = Whole{1, 1000000}});
  options.add("--sample", given.sample,
              "Write only text number N of those that --samples would write",
              {.within = Whole{1, 1000000}, .excludes = "--samples"});
  options.add("--ignore-eos", given.ignore_eos,
              "Go on where the tokenizer's token for the end of a document comes");
  options.add("--no-cache", given.no_cache,
              "Compute all tokens again for each new one: the same text, to check the cache");
  options.add("--stats", given.stats, "Print tokens per second on standard error");
  options.add("-o,--output", given.output, "Pictures: a new PNG file with all of them");
  options.add("--each", given.folder,
              "Pictures: a new folder with a PNG file of each, 1.png and so on");
  options.add(
      "--steps", given.steps,
      "Pictures: steps from noise to a picture; 0: all (default: diffusion.sampling_steps of "
      "the run)",
      {.within = Whole{0, 1000000}});
  options.add("--sampler", given.sampler,
              "Pictures: ddpm or ddim (default: diffusion.sampling of the run)",
              {.one_of = "ddpm,ddim"});
  options.add("--eta", given.eta, "Pictures: noise that ddim adds, from 0 to 1",
              {.within = Real{0, 1}});
  options.add("--class", given.label,
              "Pictures: the class of all of them, from 0 on (default: one after another)",
              {.within = Least{0}});
  add_machine_options(options, given.threads, given.device);
}

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
      arguments.no_cache ? generate::Cache::compute_again : generate::Cache::keep);
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

void write_texts(const GenerateArguments& arguments, const rundir::TrainedModel& model) {
  refuse_options({{"--output", !arguments.output.empty()},
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

constexpr std::int64_t usual_count = 16;

void check_outputs(const GenerateArguments& arguments) {
  if (arguments.output.empty() && arguments.folder.empty())
    throw UserError(ExitCode::bad_config,
                    "this run makes pictures, which go to files; give -o FILE.png for one with all "
                    "of them, or --each FOLDER for one of each");
  for (const std::string& path : {arguments.output, arguments.folder})
    if (!path.empty() && file_exists(path))
      throw UserError(ExitCode::output_in_use,
                      format("{} is there already; choose another name, or remove it", path));
}

config::Sampling sampling_of(const GenerateArguments& arguments) {
  config::Sampling sampling{arguments.steps, std::nullopt, arguments.eta};
  if (arguments.sampler)
    sampling.sampler = *arguments.sampler == "ddpm" ? model::Sampler::ddpm : model::Sampler::ddim;
  return sampling;
}

generate::PictureSpec spec_of(const GenerateArguments& arguments, const config::Config& config,
                              std::int64_t count) {
  const model::Spec making = config.model();
  const std::int64_t classes = model::data_facts(making).num_labels;
  if (arguments.label && !model::is_told_labels(making))
    throw UserError(ExitCode::bad_config,
                    format("--class {}: the model was not told classes ({}.class_conditional = "
                           "false); leave it out",
                           *arguments.label, config::kind_word(config.kind)));
  if (arguments.label && *arguments.label >= classes)
    throw UserError(ExitCode::bad_config,
                    format("--class {}: the model knows {} classes; expected at most {}",
                           *arguments.label, classes, classes - 1));
  generate::PictureSpec spec{.count = count,
                             .steps = model::diffusion(making)->sampling.steps,
                             .seed = arguments.seed.value_or(config.seed),
                             .label = std::nullopt,
                             .num_labels = classes};
  if (arguments.label) spec.label = static_cast<std::int32_t>(*arguments.label);
  return spec;
}

void write_pictures(const GenerateArguments& arguments, const generate::Pictures& pictures) {
  const auto count = static_cast<double>(pictures.bytes.size());
  if (!arguments.output.empty()) {
    data::PictureShape shape;
    const auto columns = static_cast<std::int64_t>(std::ceil(std::sqrt(count)));
    const std::vector<std::uint8_t> sheet = generate::on_one_sheet(pictures, columns, shape);
    write_file_atomic(arguments.output, data::encode_png(sheet, shape));
  }
  if (arguments.folder.empty()) return;
  AtomicFolder folder(arguments.folder);
  for (std::size_t i = 0; i < pictures.bytes.size(); ++i)
    folder.write(format("{}.png", i + 1), data::encode_png(pictures.bytes[i], pictures.shape));
  folder.commit();
}

void generate_pictures(const GenerateArguments& arguments, const rundir::TrainedModel& model) {
  check_outputs(arguments);
  const std::int64_t count = arguments.samples.value_or(usual_count);
  const config::Config config = config::for_pictures(
      model.config, {arguments.threads, arguments.device}, count, sampling_of(arguments));
  const job::Job job = job::prepare(job::settle(config, {}), {.graphs = job::Graphs::generation});
  const generate::PictureSpec spec = spec_of(arguments, job.settled.config(), count);
  job::require_device(job.device);
  job::check_memory(job);
  const auto backend = job::make_backend(job);
  run::Executor executor(job.bundle(), *backend);
  checkpoint::load_model(*model.parameters, job.bundle().at(op::ProgramKind::denoise),
                         [&](const program::Buffer& b) { return executor.bytes(b); });

  const Stopwatch time;
  std::optional<screen::ProgressLine> line(
      screen::terminal_of(STDOUT_FILENO, screen::ColorChoice::automatic, arguments.variable));
  const generate::Pictures pictures = generate::make_pictures(spec, executor, [&](double done) {
    line->show(done, format("{} in {}", counted(count, "picture"), counted(spec.steps, "step")));
  });
  line.reset();
  write_pictures(arguments, pictures);
  const model::Spec making = job.settled.model();
  const bool is_ddim = model::diffusion(making)->sampling.sampler == model::Sampler::ddim;
  screen::print("%s: %s of %s by %s of %s, %s of %s, seed %llu, in %s\n",
                (arguments.output.empty() ? arguments.folder : arguments.output).c_str(),
                counted(count, "picture").c_str(), pictures.shape.text().c_str(),
                counted(spec.steps, "step").c_str(), is_ddim ? "ddim" : "ddpm",
                model.origin.c_str(), arguments.run_dir.c_str(),
                static_cast<unsigned long long>(spec.seed),
                format_duration(time.seconds()).c_str());
}

void generate(const GenerateArguments& arguments) {
  const rundir::TrainedModel model = rundir::open_trained_model(arguments.run_dir, arguments.step);
  if (model.config.family().makes != model::Makes::pictures) return write_texts(arguments, model);
  refuse_options({{"--prompt", arguments.prompt.has_value()},
                  {"--prompt-file", !arguments.prompt_file.empty()},
                  {"--tokens", arguments.tokens.has_value()},
                  {"--temperature", arguments.temperature.has_value()},
                  {"--top-k", arguments.top_k.has_value()},
                  {"--top-p", arguments.top_p.has_value()},
                  {"--sample", arguments.sample.has_value()},
                  {"--ignore-eos", arguments.ignore_eos},
                  {"--no-cache", arguments.no_cache},
                  {"--stats", arguments.stats}},
                 "texts", "pictures");
  generate_pictures(arguments, model);
}

}  // namespace

void add_generate(Commands& commands) {
  commands.add(
      {"generate", After{"train"}, "Continue a text, or make pictures, with the weights of a run",
       "generate runs/gpt-quickstart --prompt \"In the beginning\" --tokens 100"},
      list_options, generate);
}

}  // namespace fourfold::cli
