#include "cli/eval_pictures.h"

#include <unistd.h>

#include <optional>

#include "base/error.h"
#include "base/figure.h"
#include "base/format.h"
#include "base/json.h"
#include "base/units.h"
#include "checkpoint/load_model.h"
#include "config/uses.h"
#include "data/source.h"
#include "job/job.h"
#include "job/settle.h"
#include "model/model.h"
#include "run/executor.h"
#include "screen/print.h"
#include "screen/progress_line.h"
#include "screen/terminal.h"
#include "train/picture_bound.h"

namespace fourfold::cli {
namespace {

void check_options(const EvalArguments& arguments) {
  if (arguments.data.empty())
    throw UserError(ExitCode::bad_config,
                    "this run makes pictures; give some to judge with --data PATH");
  const std::pair<const char*, bool> of_text[] = {{"--text", !arguments.text.empty()},
                                                  {"--window", arguments.window.has_value()},
                                                  {"--logits", !arguments.logits.empty()}};
  for (const auto& [option, is_given] : of_text)
    if (is_given)
      throw UserError(ExitCode::bad_config,
                      format("{} is an option for texts, but the model of this run makes pictures; "
                             "leave it out",
                             option));
}

void print_bound(const EvalArguments& arguments, const rundir::TrainedModel& model,
                 const train::PictureBound& bound) {
  if (arguments.json) {
    Json terms = Json::array();
    for (const double bits : bound.by_time) terms.push(bits);
    const Json json = Json::object()
                          .set("bits_per_dim", bound.bits())
                          .set("pictures", bound.pictures)
                          .set("by_time", std::move(terms));
    screen::print("%s\n", json.dump().c_str());
    return;
  }
  screen::print("model        %s of %s\npictures     %s of %s\nbits/dim     %.4f\n",
                model.origin.c_str(), arguments.run_dir.c_str(),
                format_grouped(bound.pictures).c_str(), arguments.data.c_str(), bound.bits());
}

}  // namespace

void eval_pictures(const EvalArguments& arguments, const rundir::TrainedModel& model) {
  check_options(arguments);
  const config::Config config =
      config::for_judging(model.config, {arguments.threads, arguments.device},
                          {data::Format::pictures, arguments.data}, arguments.pictures);
  const auto source = job::open_data(config, job::DataUse::validation);
  const job::Job job = job::prepare(job::settle(config, {.data = source.get()}),
                                    {.graphs = job::Graphs::evaluation});
  job::require_device(job.device);
  job::check_memory(job);
  const auto backend = job::make_backend(job);
  run::Executor executor(job.bundle(), *backend);
  checkpoint::load_model(*model.parameters, job.bundle().at(op::ProgramKind::bound),
                         [&](const program::Buffer& b) { return executor.bytes(b); });
  std::optional<screen::ProgressLine> line;
  if (!arguments.json)
    line.emplace(
        screen::terminal_of(STDOUT_FILENO, screen::ColorChoice::automatic, arguments.variable));
  const std::int64_t times = model::diffusion(job.settled.model())->steps;
  const train::PictureBound bound = train::bound_of_pictures(
      executor, *source, times, arguments.pictures, [&](double done, std::int64_t pictures) {
        if (line)
          line->show(done,
                     format("{} at {} each", counted(pictures, "picture"), counted(times, "time")));
      });
  line.reset();
  for (std::size_t time = 0; time < bound.by_time.size(); ++time)
    finite_figure(bound.by_time[time],
                  format("the bound of {} at time {} by {} of {}", arguments.data, time,
                         model.origin, arguments.run_dir),
                  use_other_weights);
  print_bound(arguments, model, bound);
}

}  // namespace fourfold::cli
