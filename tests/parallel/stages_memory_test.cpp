// What stages of pipelines keep, gather and compute again: as much as their schedule and a limit of
// memory say.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "compile/fit.h"
#include "pipeline/peaks.h"
#include "program/text.h"
#include "support/grids.h"
#include "support/outcome.h"
#include "support/stages.h"
#include "verify/verify_job.h"

namespace fourfold {
namespace {

using pipeline::Schedule;
using test::RunSetup;
using test::Tensors;
using test::TrainingOutcome;
using namespace test::stages;

using Kinds = std::set<program::TaskKind>;

/// By name of an activation, without its slot: how many slots it has, and the tasks that touch it.
struct Slots {
  std::int64_t number = 0;
  Kinds kinds;                 // but receive
  std::set<std::size_t> laps;  // of its forward tasks: which of the mesh's stages
  bool is_sent = false, is_received = false;
};

std::size_t stage_of(const program::Bundle& bundle) {
  return bundle.programs[0].buffers[0].sharding.mesh.index();
}

std::map<std::string, Slots> slots_of(const program::Program& program) {
  std::map<std::string, Slots> result;
  const auto value_of = [](const program::Buffer& buffer) {
    return buffer.name.substr(0, buffer.name.find('#'));
  };
  for (const program::Buffer& buffer : program.buffers)
    if (buffer.role == program::BufferRole::activation) ++result[value_of(buffer)].number;
  std::map<std::optional<std::int64_t>, std::size_t> forwards;  // by micro-batch, those so far
  for (const program::Task& task : program.tasks) {
    const bool is_forward = task.kind == program::TaskKind::forward;
    const std::size_t lap = is_forward ? forwards[task.micro]++ : 0;
    for (std::size_t i = task.begin; i < task.end; ++i)
      for (const program::Access& access : program::accesses(program.instructions[i])) {
        const program::Buffer& buffer = program.buffer(access.slice.buffer);
        if (buffer.role != program::BufferRole::activation) continue;
        Slots& slots = result[value_of(buffer)];
        if (task.kind != program::TaskKind::receive) slots.kinds.insert(task.kind);
        if (is_forward) slots.laps.insert(lap);
        if (std::holds_alternative<program::Recv>(program.instructions[i].what))
          slots.is_received = true;
        if (std::holds_alternative<program::Send>(program.instructions[i].what))
          slots.is_sent = true;
      }
  }
  return result;
}

/// What a stage keeps for its backward tasks has one slot for each micro-batch that the schedule's
/// closed form says is under way; everything else has one. Either has one more where it is received
/// ahead, and where a peer may be reading it while two tasks make the next: the first forward tasks
/// follow one another (not every rank of a mesh that sends a value has a peer).
TEST(Stages, keep_as_many_activations_as_the_schedule_says) {
  const RunSetup setup = gpt();
  for (const Pipeline& pipeline : {two_stages[0], four_stages[0], four_stages[1]})
    for (const Schedule schedule :
         {Schedule::gpipe, Schedule::one_f_one_b, Schedule::eager_one_f_one_b}) {
      SCOPED_TRACE(name_of(pipeline, schedule));
      const auto job = compile_stages(setup, pipeline, schedule);
      const std::size_t stages = pipeline.grids.size();
      const std::int64_t micros =
          setup.plan.global_batch_size / samples_of(setup, pipeline.grids[0]);
      ASSERT_GE(micros, 3);
      std::set<std::pair<std::size_t, std::string>> sent;  // stage and value
      for (const program::Bundle& bundle : job.classes)
        for (const auto& [name, slots] : slots_of(bundle.at(op::ProgramKind::train)))
          if (slots.is_sent) sent.emplace(stage_of(bundle), name);
      for (const program::Bundle& bundle : job.classes) {
        const program::Program& train = bundle.at(op::ProgramKind::train);
        const std::size_t stage = stage_of(bundle);
        const std::int64_t most = pipeline::most_in_flight(schedule, {stage, stages}, micros);
        std::int64_t kept = 0;
        for (const auto& [name, slots] : slots_of(train)) {
          SCOPED_TRACE(format("stage {}: {}", stage, name));
          const std::int64_t received = slots.is_received ? 1 : 0;
          const bool is_sent = sent.contains({stage, name});
          if (slots.kinds == Kinds{program::TaskKind::forward, program::TaskKind::backward} &&
              slots.number > 1) {
            EXPECT_EQ(slots.number, std::min(most + (is_sent ? 1 : 0) + received, micros));
            ++kept;
          } else {
            EXPECT_LE(slots.number, (is_sent ? 3 : 1) + received);
          }
        }
        if (most > 1) {
          EXPECT_GT(kept, 10) << "a stage keeps activations for its backward tasks";
        }
      }
    }
}

/// True for a part of a weight, or what it is gathered to.
bool is_made_of_weight(const program::Program& program, const std::string& name) {
  const auto weight = program.find_buffer(name.substr(0, name.find('/')));
  return weight && program.buffer(*weight).role == program::BufferRole::parameter;
}

/// What a stage keeps from its forward to its backward tasks has as many slots as `pipeline` says
/// that micro-batches are alive on it at most, whatever other stages the mesh has.
TEST(Stages, that_share_meshes_keep_as_many_activations_as_the_order_says) {
  const RunSetup setup = gpt();
  for (const Pipeline& pipeline : interleaved) {
    SCOPED_TRACE(name_of(pipeline, Schedule::interleaved));
    const auto job = compile_stages(setup, pipeline, Schedule::interleaved);
    const std::size_t meshes = pipeline.grids.size();
    const auto laps = static_cast<std::size_t>(pipeline.stages_per_mesh);
    const std::int64_t micros = setup.plan.global_batch_size / samples_of(setup, pipeline.grids[0]);
    std::vector<pipeline::Order> orders;
    for (std::size_t mesh = 0; mesh < meshes; ++mesh)
      orders.push_back(pipeline::interleaved_order({mesh, meshes, laps}, micros));
    const auto live = pipeline::most_peaks(orders, pipeline::chain(meshes * laps)).live_of_stage;
    std::set<std::pair<std::size_t, std::string>> handed_over;  // mesh and value
    for (const program::Bundle& bundle : job.classes)
      for (const auto& [name, slots] : slots_of(bundle.at(op::ProgramKind::train)))
        if (slots.is_sent || slots.is_received) handed_over.emplace(stage_of(bundle), name);
    std::map<std::size_t, std::int64_t> kept;  // by stage
    for (const program::Bundle& bundle : job.classes)
      for (const auto& [name, slots] : slots_of(bundle.at(op::ProgramKind::train))) {
        if (slots.kinds != Kinds{program::TaskKind::forward, program::TaskKind::backward} ||
            slots.laps.size() != 1 || handed_over.contains({stage_of(bundle), name}))
          continue;
        const std::size_t stage = stage_of(bundle) + *slots.laps.begin() * meshes;
        if (is_made_of_weight(bundle.at(op::ProgramKind::train), name)) {
          EXPECT_EQ(slots.number, 1) << name;
          continue;
        }
        EXPECT_EQ(slots.number, live[stage]) << "stage " << stage << ": " << name;
        ++kept[stage];
      }
    EXPECT_EQ(kept.size(), meshes * laps) << "every stage keeps activations";
  }
}

/// Eager-1F1B with less memory than it wants begins fewer micro-batches ahead, down to 1F1B's.
TEST(Stages, that_are_eager_begin_fewer_micro_batches_where_memory_is_short) {
  RunSetup setup = gpt();
  setup.plan.global_batch_size = 48;
  const auto graphs = model::build(setup.model(), {4, 6, 48}, setup.optimizer);
  const Pipeline first_is_largest{four_stages[0].grids, {2, 3, 4}};
  const auto planned = [&](Schedule schedule, std::optional<std::int64_t> limit) {
    plan::PlanSpec spec = setup.plan;
    spec.pipeline = first_is_largest.with(schedule, graphs.num_layers);
    spec.memory_limit = limit;
    return std::get<plan::PlannedModel>(plan::plan_model(graphs, spec));
  };
  const auto fitted = [&](const plan::PlannedModel& wanted) {
    return compile::compile_to_fit(wanted.model, wanted.plan, kernels::cpu::target(1));
  };
  const auto bytes_of = [](const program::Job& job) {
    std::int64_t most = 0;
    for (const program::Bundle& bundle : job.classes)
      most = std::max(most, bundle.persistent_bytes + bundle.transient_bytes);
    return most;
  };
  const auto needed = [&](Schedule schedule) {
    const auto made = fitted(planned(schedule, std::nullopt));
    return bytes_of(std::get<compile::Fitted>(made).job);
  };
  const auto of_1f1b = planned(Schedule::one_f_one_b, std::nullopt).plan.orders;
  const auto of_eager = planned(Schedule::eager_one_f_one_b, std::nullopt).plan.orders;
  const std::int64_t least = needed(Schedule::one_f_one_b),
                     most = needed(Schedule::eager_one_f_one_b);
  ASSERT_LT(least, most);
  for (const std::int64_t limit : {most - 1, least}) {
    const plan::PlannedModel wanted = planned(Schedule::eager_one_f_one_b, limit);
    const auto made = fitted(wanted);
    const auto& [fit, job] = std::get<compile::Fitted>(made);
    const plan::Plan plan = plan::with_fit(wanted.plan, fit);
    EXPECT_LE(bytes_of(job), limit);
    EXPECT_NE(plan.orders, of_eager);
    EXPECT_EQ(plan.orders == of_1f1b, limit == least);
    EXPECT_EQ(wanted.plan.orders, of_eager) << "fitting changes no plan";
  }
}

/// Gathered weights that stay for the backward pass are gathered once in a step, and there is one
/// copy of each, however many micro-batches are under way.
TEST(Stages, gather_weights_that_stay_once_in_a_step) {
  RunSetup setup = gpt();
  const Pipeline on_z{{{.z = 2, .data = 1}, {.z = 2, .data = 1}}, {2}};
  struct Gathered {
    std::map<std::string, std::int64_t> copies, gathers;  // by value
  };
  const auto gathered = [](const program::Program& train) {
    Gathered result;
    for (const program::Buffer& buffer : train.buffers)
      if (is_made_of_weight(train, buffer.name) &&
          buffer.name.find("gathered") != std::string::npos)
        ++result.copies[buffer.name.substr(0, buffer.name.find('#'))];
    for (const auto& instruction : train.instructions)
      if (const auto* gather = std::get_if<program::AllGather>(&instruction.what))
        for (const program::Slice& to : gather->to) ++result.gathers[train.buffer(to.buffer).name];
    return result;
  };
  for (const Schedule schedule : of_one_stage_a_mesh) {
    SCOPED_TRACE(to_string(schedule));
    setup.plan.cached_gathers = std::nullopt;
    for (const program::Bundle& bundle : compile_stages(setup, on_z, schedule).classes) {
      const Gathered kept = gathered(bundle.at(op::ProgramKind::train));
      EXPECT_FALSE(kept.copies.empty());
      for (const auto& [name, number] : kept.copies) EXPECT_EQ(number, 1) << name;
      for (const auto& [name, number] : kept.gathers) EXPECT_EQ(number, 1) << name;
    }
    setup.plan.cached_gathers = 0;
    for (const program::Bundle& bundle : compile_stages(setup, on_z, schedule).classes)
      for (const auto& [name, number] : gathered(bundle.at(op::ProgramKind::train)).gathers)
        EXPECT_GE(number, 3) << name << " is gathered for each of three micro-batches";
  }
}

/// Bytes of a rank, by mesh.
std::vector<std::int64_t> bytes_by_mesh(const plan::Plan& plan, const program::Job& job) {
  std::vector<std::int64_t> most(plan.meshes.size(), 0);
  for (const program::Bundle& bundle : job.classes)
    most[stage_of(bundle)] =
        std::max(most[stage_of(bundle)], bundle.persistent_bytes + bundle.transient_bytes);
  return most;
}

/// Stage i of S has S - i + 1 micro-batches under way: what is left of a limit on memory is more on
/// later stages, which then compute less again. Each does as little of it as its own memory asks
/// for, and no bit depends on it.
TEST(Stages, compute_again_what_their_own_memory_asks_for) {
  RunSetup setup = gpt();
  setup.gpt.num_layers = 8;
  const auto graphs = model::build(setup.model(), {4, 6, 24}, setup.optimizer);
  const auto planned = [&](const Pipeline& stages, Schedule schedule) {
    plan::PlanSpec spec = setup.plan;
    spec.pipeline = stages.with(schedule, graphs.num_layers);
    spec.checkpointing.is_auto = true;
    spec.cached_gathers = 0;
    return std::get<plan::PlannedModel>(plan::plan_model(graphs, spec));
  };
  const auto compiled = [](const graph::ModelGraphs& cut, const plan::Plan& plan) {
    return compile::compile(cut, plan, kernels::cpu::target(1));
  };
  const Tensors weights = test::rough_weights(setup);
  for (const auto& [stages, schedule] :
       {std::pair(Pipeline{four_stages[0].grids, {1, 3, 5}}, Schedule::one_f_one_b),
        std::pair(Pipeline{{{.x = 2, .data = 1}, {.data = 2}}, {1, 3, 5}, 2},
                  Schedule::interleaved)}) {
    SCOPED_TRACE(name_of(stages, schedule));
    auto [model, plan] = planned(stages, schedule);
    const program::Job all_kept = compiled(model, plan);
    plan::Plan full = plan;
    full.checkpointing = {.layers = 1};
    const std::int64_t most = bytes_by_mesh(plan, all_kept)[0],
                       least = std::ranges::max(bytes_by_mesh(plan, compiled(model, full)));
    ASSERT_LT(least, most);
    std::int64_t first_before = 0;
    for (std::int64_t i = stages.stages_per_mesh; i < 4; i += 2) {
      const std::int64_t limit = most - (most - least) * i / 4;
      plan.memory_limit = limit;
      const auto made = compile::compile_to_fit(model, plan, kernels::cpu::target(1));
      const auto& fitted = std::get<compile::Fitted>(made);
      const plan::Plan chosen = plan::with_fit(plan, fitted.fit);
      EXPECT_TRUE(verify::verify(fitted.job).empty());
      const std::vector<std::int64_t> bytes = bytes_by_mesh(plan, fitted.job);
      std::vector<std::int64_t> repeated;  // by mesh: layers, those without their products twice
      ASSERT_EQ(chosen.checkpointing_of_meshes.size(), plan.meshes.size());
      for (std::size_t mesh = 0; mesh < bytes.size(); ++mesh) {
        SCOPED_TRACE(format("mesh {} of {}", mesh, plan::checkpointing_text(chosen)));
        EXPECT_LE(bytes[mesh], limit);
        plan::Plan less = chosen;
        plan::Checkpointing& its = less.checkpointing_of_meshes[mesh];
        const auto layers = plan::layers_on(plan, MeshId(mesh), graphs.num_layers);
        std::int64_t again = 0;
        for (const std::int64_t layer : layers)
          again += its.repeats(layer) ? (its.keeps_products_of(layer) ? 1 : 2) : 0;
        repeated.push_back(again);
        if (again == 0) continue;
        // The last layer of its own that is repeated with its products, else without, is kept.
        std::int64_t& end = its.first_full > 0 ? its.first_full : its.first_selective;
        end = *std::ranges::max_element(
            layers, {}, [&](std::int64_t layer) { return layer < end ? layer : -1; });
        EXPECT_GT(bytes_by_mesh(plan, compiled(model, less))[mesh], limit);
      }
      EXPECT_GT(repeated.front(), 0);
      if (stages.stages_per_mesh == 1) {
        EXPECT_LT(repeated.back(), repeated.front());
      }
      EXPECT_GE(repeated.front(), first_before);
      first_before = repeated.front();
      const TrainingOutcome kept = test::run_job(setup, all_kept, weights, in_moments),
                            again = test::run_job(setup, fitted.job, weights, in_moments);
      EXPECT_EQ(again.losses, kept.losses);
      EXPECT_EQ(again.gradients, kept.gradients);
    }
  }
}

/// GPipe's first stage needs more memory the more micro-batches there are, that of 1F1B does not.
TEST(Stages, of_1f1b_need_no_more_memory_for_more_micro_batches) {
  const auto transient = [](Schedule schedule, std::int64_t batch) {
    RunSetup setup = gpt();
    setup.plan.global_batch_size = batch;
    const auto job = compile_stages(setup, four_stages[0], schedule);
    return job.classes[0].at(op::ProgramKind::train).transient_bytes;
  };
  EXPECT_EQ(transient(Schedule::one_f_one_b, 48), transient(Schedule::one_f_one_b, 24));
  const std::int64_t kept_more =
      transient(Schedule::gpipe, 24) - transient(Schedule::one_f_one_b, 24);
  EXPECT_GT(kept_more, 0);
  EXPECT_GT(transient(Schedule::gpipe, 48), transient(Schedule::gpipe, 24) + kept_more)
      << "gpipe keeps all micro-batches, of which 1f1b keeps some";
}

}  // namespace
}  // namespace fourfold
