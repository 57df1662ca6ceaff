#include "cli/generate_pictures.h"

#include <unistd.h>

#include <cmath>
#include <optional>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/stopwatch.h"
#include "base/units.h"
#include "checkpoint/load_model.h"
#include "config/uses.h"
#include "data/png.h"
#include "generate/pictures.h"
#include "job/job.h"
#include "job/settle.h"
#include "model/model.h"
#include "run/executor.h"
#include "screen/print.h"
#include "screen/progress_line.h"
#include "screen/terminal.h"

namespace fourfold::cli {
namespace {

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

}  // namespace

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

}  // namespace fourfold::cli
