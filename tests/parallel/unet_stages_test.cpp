// Pipelines of a U-Net, whose first stages feed far ones: skips, the time, class labels. Whatever
// the schedule, their ranks come to the end of a step, and compute what one rank does.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/parallel.h"
#include "support/long_run.h"
#include "support/unet_stages.h"

namespace fourfold::test::stages {
namespace {

/// True if the schedule has no such pipeline, for a reason that the numbers show.
bool is_rightly_refused(const UnetCase& its, const plan::Infeasible& infeasible) {
  if (infeasible.problems.size() != 1) return false;
  if (std::holds_alternative<plan::UnevenStages>(infeasible.problems[0]))
    return its.stages % its.laps != 0;
  const auto* refused = std::get_if<plan::RefusedSchedule>(&infeasible.problems[0]);
  return refused != nullptr && std::holds_alternative<pipeline::UnevenGroups>(refused->refusal) &&
         its.laps > 1 && its.micros % (its.stages / its.laps) != 0;
}

/// What is wrong with a pipeline; nothing where it is proved or rightly refused.
std::string wrong_with(const UnetCase& its, bool in_full) {
  const RunSetup setup = unet_of(its.is_conditional);
  plan::PlanSpec spec = setup.plan;
  spec.global_batch_size = its.micros;
  spec.micro_batch_size = 1;
  spec.grid = {.y = its.y, .data = 1};
  spec.overlap.send_recv = its.is_beside;
  spec.pipeline = {.stages = its.stages,
                   .stages_per_mesh = its.laps,
                   .schedule = its.schedule,
                   .weight_delay = *pipeline::weight_delay_from(its.delay)};
  const auto graphs = model::build(setup.model(), {1, 1, its.micros}, setup.optimizer);
  const auto planned = plan::plan_model(graphs, spec);
  if (const auto* infeasible = std::get_if<plan::Infeasible>(&planned))
    return is_rightly_refused(its, *infeasible) ? "" : its.text() + ": is refused";
  const auto& [model, plan] = std::get<plan::PlannedModel>(planned);
  const program::Job job = compile::compile(model, plan, kernels::cpu::reference_target(),
                                            {.only = op::ProgramKind::train});
  const std::vector<verify::Fault> faults =
      in_full ? verify::verify(job) : verify::verify_meetings(job);
  if (faults.empty()) return "";
  return format("{}: {}: {}", its.text(), faults[0].rule, faults[0].message);
}

std::vector<UnetCase> all_cases() {
  std::vector<UnetCase> cases;
  std::mt19937 random(5);
  struct Way {
    Schedule schedule;
    std::int64_t laps;
  };
  for (std::int64_t stages = 2; stages <= 12; ++stages)
    for (const std::int64_t micros : {2, 3, 5, 8, 16, 32})
      for (const auto& [schedule, laps] :
           {Way{Schedule::gpipe, 1}, Way{Schedule::one_f_one_b, 1},
            Way{Schedule::eager_one_f_one_b, 1}, Way{Schedule::interleaved, 2},
            Way{Schedule::interleaved, 3}})
        for (const std::string delay : {"none", "auto", "1", "3"})
          for (const bool is_beside : {true, false})
            for (const bool is_conditional : {true, false})
              cases.push_back({stages, laps, micros, schedule, delay, is_beside, is_conditional,
                               random() % 2 == 0 ? 1 : 2});
  return cases;
}

TEST(UnetStages, come_to_their_end_whatever_the_schedule) {
  std::vector<UnetCase> cases = all_cases();
  if (!is_long_run()) {
    std::mt19937 random(11);
    std::ranges::shuffle(cases, random);
    cases.resize(24);
    // Those that once waited for ever, of the fewest stages.
    cases.push_back({5, 1, 8, Schedule::eager_one_f_one_b});
    cases.push_back({8, 1, 8, Schedule::one_f_one_b});
    cases.push_back({4, 1, 8, Schedule::eager_one_f_one_b, "1"});
    cases.push_back({3, 1, 4, Schedule::eager_one_f_one_b, "none", false});
    cases.push_back({8, 2, 8, Schedule::interleaved});
    cases.push_back({6, 3, 4, Schedule::interleaved, "none", true, true, 2});
  }
  std::vector<std::string> wrong(cases.size());
  for_each_on_all_cores(cases.size(),
                        [&](std::size_t i) { wrong[i] = wrong_with(cases[i], !is_long_run()); });
  for (const std::string& text : wrong) EXPECT_EQ(text, "");
}

TEST(UnetStages, drawn_from_seeds_train_as_one_rank) {
  const std::int64_t layers = num_unet_layers();
  std::map<std::pair<bool, std::int64_t>, TrainingOutcome> serial;
  Worst worst;
  const std::uint64_t last = is_long_run() ? 400 : 4;
  for (std::uint64_t seed = 1; seed <= last; ++seed) {
    const auto [its, pipeline, delay] = draw_unet(seed, layers);
    SCOPED_TRACE(format("seed {}: {}: {}", seed, its.text(), name_of(pipeline, its.schedule)));
    RunSetup setup = unet_of_micros(its.is_conditional, its.micros, pipeline.grids[0]);
    setup.plan.overlap.send_recv = its.is_beside;
    const Tensors weights = rough_weights(setup);
    const std::pair key{its.is_conditional, its.micros};
    if (!serial.contains(key)) {
      const RunSetup whole = unet_of_micros(its.is_conditional, its.micros, {.data = 1});
      serial.emplace(key, run_serial(whole, {.data = 1}, weights));
    }
    const program::Job job = compile_stages(setup, pipeline, its.schedule, delay);
    compare(run_job(setup, job, weights, in_moments), serial.at(key), 1e-10, worst);
  }
  print(worst, format("U-Net, pipelines of seeds 1 to {}", last));
}

TEST(UnetStages, send_the_noise_of_times_whole_where_ranks_do_not_divide_them) {
  RunSetup setup = unet_of(true);
  setup.unet->diffusion.steps = 10;
  setup.plan.global_batch_size = 8;
  setup.plan.micro_batch_size = 4;
  const std::int64_t layers = model::build(setup.model(), {4, 1, 8}, setup.optimizer).num_layers;
  Pipeline two = deep(2, layers);
  two.grids = {{.data = 1}, {.z = 2, .data = 2}};
  compile_stages(setup, two);
}

}  // namespace
}  // namespace fourfold::test::stages
