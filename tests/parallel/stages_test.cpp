// Pipelines: stages on meshes of different shape, in every order, train as one rank does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <set>

#include "base/format.h"
#include "compile/fit.h"
#include "pipeline/dependencies.h"
#include "pipeline/peaks.h"
#include "program/text.h"
#include "support/grids.h"
#include "support/long_run.h"
#include "support/outcome.h"
#include "verify/verify_job.h"

namespace fourfold {
namespace {

using pipeline::Schedule;
using test::GridRun;
using test::RunSetup;
using test::SmallRun;
using test::Tensors;
using test::TrainingOutcome;

constexpr auto in_moments = test::Gradients::in_the_moments;

RunSetup gpt() {
  RunSetup setup;
  setup.gpt = {.num_layers = 6,
               .num_attention_heads = 8,
               .hidden_size = 32,
               .ffn_hidden_size = 64,
               .max_position_embeddings = 6,
               .vocab_size = 40,
               .dropout = 0.1};
  setup.plan = {.global_batch_size = 24, .micro_batch_size = 4, .seq_length = 6};
  setup.plan.compute = DType::f64;
  return setup;
}

/// Four stretches between poolings, and the linear layers.
RunSetup vgg() {
  RunSetup setup = test::picture_model();
  setup.vgg->widths = {16, 0, 32, 32, 0, 32, 0, 32, 0};
  setup.vgg->hidden = {32};
  setup.vgg->picture = {16, 16, 3};
  setup.vgg->num_classes = 16;
  setup.plan.global_batch_size = 24;
  setup.plan.micro_batch_size = 4;
  return setup;
}

/// Samples of a micro-batch: those of the first stage.
std::int64_t samples_of(const RunSetup& setup, const plan::Grid& first) {
  return setup.plan.micro_batch_size * first.z * first.data.value();
}

struct Pipeline {
  std::vector<plan::Grid> grids;
  std::vector<std::int64_t> last_layers;  // of all stages but the last
  std::int64_t stages_per_mesh = 1;
  plan::ReshardSpec reshard = {};

  plan::PipelineSpec with(Schedule schedule, std::int64_t num_layers) const {
    plan::PipelineSpec spec{.stages = static_cast<std::int64_t>(grids.size()) * stages_per_mesh,
                            .stages_per_mesh = stages_per_mesh,
                            .schedule = schedule,
                            .grids = grids,
                            .reshard = reshard};
    std::int64_t begin = 0;
    for (const std::int64_t last : last_layers) {
      spec.layers.push_back(last + 1 - begin);
      begin = last + 1;
    }
    spec.layers.push_back(num_layers - begin);
    return spec;
  }
};

program::Job compile_stages(const RunSetup& setup, const Pipeline& stages,
                            Schedule schedule = Schedule::one_f_one_b,
                            std::optional<std::int64_t> weight_delay = std::nullopt) {
  const auto graphs = model::build(
      setup.model(),
      {samples_of(setup, stages.grids[0]), setup.plan.seq_length, setup.plan.global_batch_size},
      setup.optimizer);
  plan::PlanSpec spec = setup.plan;
  spec.pipeline = stages.with(schedule, graphs.num_layers);
  auto [model, plan] = std::get<plan::PlannedModel>(plan::plan_stages(graphs, spec));
  if (weight_delay)
    for (pipeline::Order& order : plan.orders)
      order = pipeline::with_weight_tasks(order, *weight_delay);
  program::Job job = compile::compile(
      model, plan,
      setup.reference_kernels ? kernels::cpu::reference_target() : kernels::cpu::target(1));
  const auto faults = verify::verify(job);
  for (const auto& fault : faults) ADD_FAILURE() << fault.rule << ": " << fault.message;
  require(faults.empty(), "only sound programs are run");
  return job;
}

/// The same samples, micro-batches and order of sums over them on one rank.
TrainingOutcome run_serial(RunSetup setup, const plan::Grid& first, const Tensors& weights) {
  setup.plan.micro_batch_size = samples_of(setup, first);
  return test::run_job(setup, GridRun::compile_job(setup), weights, in_moments);
}

std::string name_of(const Pipeline& pipeline, Schedule schedule) {
  std::string name = format("{} {}", to_string(schedule), pipeline.stages_per_mesh);
  for (const plan::Grid& grid : pipeline.grids)
    name += format(" | x {} y {} z {} data {}", grid.x, grid.y, grid.z, grid.data.value());
  return name;
}

const std::vector<Schedule> of_one_stage_a_mesh = {Schedule::gpipe, Schedule::one_f_one_b,
                                                   Schedule::eager_one_f_one_b};

void expect_equal_to_serial(const RunSetup& setup, const std::vector<Pipeline>& pipelines,
                            const std::string& what,
                            const std::vector<Schedule>& schedules = of_one_stage_a_mesh) {
  const Tensors weights = test::rough_weights(setup);
  test::Worst worst;
  for (const Pipeline& pipeline : pipelines) {
    const TrainingOutcome serial = run_serial(setup, pipeline.grids[0], weights);
    for (const Schedule schedule : schedules) {
      SCOPED_TRACE(name_of(pipeline, schedule));
      RunSetup staged = setup;
      if (schedule == Schedule::one_f_one_b)
        staged.plan.overlap.weight_gradients = plan::WeightGradients::beside;
      const auto job = compile_stages(staged, pipeline, schedule);
      test::compare(test::run_job(setup, job, weights, in_moments), serial, 1e-10, worst);
    }
  }
  test::print(worst,
              format("{}: {} pipelines, {} schedules", what, pipelines.size(), schedules.size()));
}

const std::vector<Pipeline> two_stages = {
    {{{.x = 2, .data = 1}, {.y = 2, .data = 2}}, {1}},
    {{{.y = 2, .z = 2, .data = 1}, {.x = 2, .data = 1}}, {0}},
    {{{.data = 1}, {.x = 2, .y = 2, .z = 1, .data = 1}}, {2}}};
const std::vector<Pipeline> four_stages = {
    {{{.data = 1}, {.data = 1}, {.data = 1}, {.data = 1}}, {0, 1, 2}},
    {{{.x = 2, .data = 1}, {.data = 2}, {.y = 2, .data = 1}, {.z = 2, .data = 1}}, {0, 1, 2}},
    {{{.data = 2}, {.x = 2, .y = 2, .z = 1, .data = 1}, {.data = 1}, {.z = 2, .data = 2}},
     {0, 1, 2}}};

TEST(Stages, of_a_gpt_on_two_meshes_equal_the_serial_run) {
  expect_equal_to_serial(gpt(), two_stages, "gpt, two stages");
}

TEST(Stages, of_a_gpt_on_four_meshes_equal_the_serial_run) {
  expect_equal_to_serial(gpt(), four_stages, "gpt, four stages");
}

TEST(Stages, of_a_vgg_on_two_meshes_equal_the_serial_run) {
  expect_equal_to_serial(vgg(), two_stages, "vgg, two stages");
}

TEST(Stages, of_a_vgg_on_four_meshes_equal_the_serial_run) {
  expect_equal_to_serial(vgg(), four_stages, "vgg, four stages");
}

/// Two stages on each of two meshes, three on each of two, two on each of three, and all of a model
/// on one.
const std::vector<Pipeline> interleaved = {
    {{{.data = 1}, {.data = 1}}, {0, 1, 2}, 2},
    {{{.x = 2, .data = 1}, {.y = 2, .data = 2}}, {1, 2, 4}, 2},
    {{{.data = 1}, {.x = 2, .z = 2, .data = 1}}, {0, 1, 2, 3, 4}, 3},
    {{{.z = 2, .data = 1}, {.data = 1}, {.x = 2, .data = 1}}, {0, 1, 2, 3, 4}, 2},
    {{{.x = 2, .data = 1}}, {1, 3}, 3}};

TEST(Stages, of_a_gpt_that_share_meshes_equal_the_serial_run) {
  expect_equal_to_serial(gpt(), interleaved, "gpt, interleaved", {Schedule::interleaved});
  RunSetup beside = gpt();
  beside.plan.overlap.weight_gradients = plan::WeightGradients::beside;
  expect_equal_to_serial(beside, {interleaved[1]}, "gpt, interleaved, weights beside",
                         {Schedule::interleaved});
}

TEST(Stages, of_a_vgg_that_share_meshes_equal_the_serial_run) {
  expect_equal_to_serial(vgg(),
                         {interleaved[0], {{{.x = 2, .data = 1}, {.data = 2}}, {0, 1, 2}, 2}},
                         "vgg, interleaved", {Schedule::interleaved});
}

/// Skips pass over stages, on to the same mesh or another one.
TEST(Stages, of_a_unet_that_share_meshes_equal_the_serial_run) {
  RunSetup setup = test::diffusion_model();
  setup.plan.micro_batch_size = 4;
  expect_equal_to_serial(setup,
                         {{{{.data = 1}, {.data = 1}}, {0, 2, 4}, 2},
                          {{{.x = 2, .data = 1}, {.y = 2, .data = 1}}, {1, 2, 3}, 2},
                          {{{.data = 1}, {.data = 2}}, {0, 1, 2, 3, 4}, 3}},
                         "unet, interleaved", {Schedule::interleaved});
}

TEST(Stages, that_share_meshes_and_compute_again_or_apart_equal_the_serial_run) {
  RunSetup setup = gpt();
  for (const std::int64_t layers : {1, 4}) {
    setup.plan.checkpointing = {.layers = layers};
    expect_equal_to_serial(setup, {interleaved[1], interleaved[4]},
                           "gpt, interleaved, recomputation", {Schedule::interleaved});
  }
  setup.plan.checkpointing = {};
  const Tensors weights = test::rough_weights(setup);
  const TrainingOutcome together = test::run_job(
      setup, compile_stages(setup, interleaved[1], Schedule::interleaved), weights, in_moments);
  for (const std::int64_t delay : {0, 1, 3}) {
    const TrainingOutcome apart =
        test::run_job(setup, compile_stages(setup, interleaved[1], Schedule::interleaved, delay),
                      weights, in_moments);
    EXPECT_EQ(apart.losses, together.losses);
    EXPECT_EQ(apart.gradients, together.gradients);
  }
}

TEST(Stages, with_recomputation_equal_the_serial_run) {
  RunSetup setup = gpt();
  setup.plan.checkpointing = {.layers = 1};
  expect_equal_to_serial(setup, {two_stages[0], four_stages[1]}, "gpt, recomputation");
}

TEST(Stages, with_tasks_or_a_stream_for_weight_gradients_have_the_same_bits) {
  const RunSetup setup = gpt();
  const Tensors weights = test::rough_weights(setup);
  const Pipeline& stages = two_stages[0];
  const TrainingOutcome together =
      test::run_job(setup, compile_stages(setup, stages), weights, in_moments);
  RunSetup beside = setup;
  beside.plan.overlap.weight_gradients = plan::WeightGradients::beside;
  using Delay = std::optional<std::int64_t>;
  for (const Delay delay : {Delay(), Delay(0), Delay(1), Delay(3)})
    for (const RunSetup& changed : {setup, beside}) {
      SCOPED_TRACE(format("delay {}", delay.value_or(-1)));
      const TrainingOutcome apart =
          test::run_job(changed, compile_stages(changed, stages, Schedule::one_f_one_b, delay),
                        weights, in_moments);
      EXPECT_EQ(apart.losses, together.losses);
      EXPECT_EQ(apart.norms, together.norms);
      EXPECT_EQ(apart.gradients, together.gradients);
    }
}

TEST(Stages, without_transfers_beside_computation_have_the_same_bits) {
  const RunSetup beside = gpt();
  RunSetup apart = beside;
  apart.plan.overlap.send_recv = false;
  const Tensors weights = test::rough_weights(beside);
  for (const Pipeline& stages : {two_stages[0], four_stages[1]})
    for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::eager_one_f_one_b}) {
      SCOPED_TRACE(name_of(stages, schedule));
      const TrainingOutcome one =
          test::run_job(beside, compile_stages(beside, stages, schedule), weights, in_moments);
      const TrainingOutcome other =
          test::run_job(apart, compile_stages(apart, stages, schedule), weights, in_moments);
      EXPECT_EQ(one.losses, other.losses);
      EXPECT_EQ(one.gradients, other.gradients);
    }
}

/// Messages that ranks of a job send in a training step.
std::int64_t sent_messages(const program::Job& job) {
  std::int64_t messages = 0;
  for (const program::Binding& binding : job.ranks)
    for (const auto& instruction : job.classes[binding.of_class].at("train").instructions)
      if (std::holds_alternative<program::Send>(instruction.what)) ++messages;
  return messages;
}

/// Every strategy of Zhuang et al. 2023 (arXiv:2211.05322), and the rival's: the ranks that want a
/// part of a tensor are two or four, on one host and on two, some of them beside a sender.
TEST(Stages, that_pass_tensors_by_any_strategy_equal_the_serial_run) {
  std::vector<Pipeline> pipelines = {
      {{{.data = 2}, {.x = 2, .y = 2, .data = 1}}, {2}},
      {{{.data = 1}, {.x = 2, .y = 2, .z = 1, .data = 1}, {.z = 2, .data = 1}}, {1, 3}}};
  const RunSetup setup = gpt();
  using reshard::Strategy;
  std::set<std::int64_t> messages;
  for (const Strategy strategy : {Strategy::send_recv, Strategy::local_all_gather,
                                  Strategy::global_all_gather, Strategy::alpa}) {
    SCOPED_TRACE(to_string(strategy));
    for (Pipeline& pipeline : pipelines)
      pipeline.reshard = {.strategy = strategy,
                          .ranks_per_host = static_cast<std::int64_t>(pipeline.grids.size())};
    expect_equal_to_serial(setup, pipelines, format("gpt, {}", to_string(strategy)));
    messages.insert(sent_messages(compile_stages(setup, pipelines[0])));
  }
  EXPECT_GE(messages.size(), 3U) << "shares and rings have more messages, a ring of all the most";
}

/// The ranks whose training step receives turns, and from whom the first one comes.
std::map<std::size_t, Rank> turns_of(const program::Job& job) {
  std::map<std::size_t, Rank> result;  // rank, from whom
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const program::Bundle bundle = program::bundle_of(job, Rank(rank));
    for (const auto& instruction : bundle.at("train").instructions)
      if (const auto* recv = std::get_if<program::Recv>(&instruction.what))
        if (bundle.at("train").buffer(recv->to.buffer).name.starts_with("turn."))
          result.emplace(rank, recv->peer);
  }
  return result;
}

/// Senders of one host have its port one after another, and so have receivers; with all ranks on
/// one host nobody waits.
TEST(Stages, that_take_turns_at_the_port_of_a_host_equal_the_serial_run) {
  std::vector<Pipeline> pipelines = {{{{.data = 2}, {.x = 2, .y = 1, .z = 1, .data = 2}}, {2}},
                                     {{{.x = 2, .data = 2}, {.data = 4}}, {2}},
                                     {{{.data = 3}, {.data = 3}, {.data = 3}}, {1, 3}}};
  const RunSetup setup = gpt();
  for (Pipeline& pipeline : pipelines) {
    SCOPED_TRACE(name_of(pipeline, Schedule::one_f_one_b));
    EXPECT_TRUE(turns_of(compile_stages(setup, pipeline)).empty());
    const std::int64_t per_host = plan::num_ranks(pipeline.grids[0]);
    pipeline.reshard.ranks_per_host = per_host;
    const std::map<std::size_t, Rank> turns = turns_of(compile_stages(setup, pipeline));
    EXPECT_FALSE(turns.empty());
    for (const auto& [rank, from] : turns)
      EXPECT_EQ(static_cast<std::int64_t>(rank) / per_host,
                static_cast<std::int64_t>(from.index()) / per_host)
          << rank;
    RunSetup in_turn = setup;
    in_turn.plan.overlap.send_recv = false;
    EXPECT_TRUE(turns_of(compile_stages(in_turn, pipeline)).empty());
  }
  expect_equal_to_serial(setup, pipelines, "gpt, turns");
}

/// What is received ahead and has not waited for the computation before its place in the list.
std::size_t early_receipts(const program::Program& train) {
  const program::StreamId math{std::size_t{0}};
  std::map<program::EventId, std::size_t> computed;         // instructions of math before the event
  std::vector<std::size_t> known(train.streams.size(), 0);  // by stream: these it has waited for
  std::size_t so_far = 0, early = 0;
  for (const program::Task& task : train.tasks)
    for (std::size_t i = task.begin; i < task.end; ++i) {
      const auto& [stream, what] = train.instructions[i];
      if (const auto* record = std::get_if<program::Record>(&what)) {
        if (stream == math) computed[record->event] = so_far;
      } else if (const auto* wait = std::get_if<program::Wait>(&what)) {
        if (computed.contains(wait->event))
          known[stream.index()] = std::max(known[stream.index()], computed[wait->event]);
      } else if (stream == math) {
        ++so_far;
      } else if (std::holds_alternative<program::Recv>(what) &&
                 task.kind == program::TaskKind::receive) {
        early += known[stream.index()] < so_far ? 1 : 0;
      }
    }
  return early;
}

TEST(Stages, receive_ahead_from_when_computation_has_come_there) {
  const RunSetup setup = gpt();
  std::size_t receipts = 0;
  for (const Schedule schedule : of_one_stage_a_mesh)
    for (const Pipeline& pipeline : {two_stages[0], four_stages[1]})
      for (const program::Bundle& bundle : compile_stages(setup, pipeline, schedule).classes) {
        const program::Program& train = bundle.at("train");
        EXPECT_EQ(early_receipts(train), 0U) << name_of(pipeline, schedule);
        receipts += static_cast<std::size_t>(
            std::ranges::count(train.tasks, program::TaskKind::receive, &program::Task::kind));
      }
  EXPECT_GT(receipts, 50U);
}

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
        for (const auto& [name, slots] : slots_of(bundle.at("train")))
          if (slots.is_sent) sent.emplace(stage_of(bundle), name);
      for (const program::Bundle& bundle : job.classes) {
        const program::Program& train = bundle.at("train");
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
      for (const auto& [name, slots] : slots_of(bundle.at("train")))
        if (slots.is_sent || slots.is_received) handed_over.emplace(stage_of(bundle), name);
    std::map<std::size_t, std::int64_t> kept;  // by stage
    for (const program::Bundle& bundle : job.classes)
      for (const auto& [name, slots] : slots_of(bundle.at("train"))) {
        if (slots.kinds != Kinds{program::TaskKind::forward, program::TaskKind::backward} ||
            slots.laps.size() != 1 || handed_over.contains({stage_of(bundle), name}))
          continue;
        const std::size_t stage = stage_of(bundle) + *slots.laps.begin() * meshes;
        if (is_made_of_weight(bundle.at("train"), name)) {
          EXPECT_EQ(slots.number, 1) << name;
          continue;
        }
        EXPECT_EQ(slots.number, live[stage]) << "stage " << stage << ": " << name;
        ++kept[stage];
      }
    EXPECT_EQ(kept.size(), meshes * laps) << "every stage keeps activations";
  }
}

/// Every schedule, number of stages from 1 to 8 and of micro-batches from 1 to 16: all of them with
/// FOURFOLD_LONG, else every eleventh.
TEST(Stages, of_every_schedule_number_and_batch_are_proved) {
  RunSetup setup = gpt();
  setup.gpt.num_layers = 8;
  setup.plan.micro_batch_size = 1;
  std::int64_t number = 0, proved = 0;
  for (const Schedule schedule :
       {Schedule::gpipe, Schedule::one_f_one_b, Schedule::eager_one_f_one_b})
    for (std::int64_t stages = 2; stages <= 8; ++stages)
      for (std::int64_t micros = 1; micros <= 16; ++micros) {
        if (number++ % 11 != 0 && !is_long_run()) continue;
        SCOPED_TRACE(
            format("{} of {} stages, {} micro-batches", to_string(schedule), stages, micros));
        setup.plan.global_batch_size = micros;
        setup.plan.overlap.weight_gradients =
            number % 2 == 0 ? plan::WeightGradients::beside : plan::WeightGradients::in_turn;
        Pipeline pipeline;
        for (std::int64_t stage = 0; stage < stages; ++stage) {
          pipeline.grids.push_back({.data = 1});
          if (stage + 1 < stages) pipeline.last_layers.push_back(8 * (stage + 1) / stages - 1);
        }
        compile_stages(setup, pipeline, schedule,
                       micros % 3 == 0 ? std::optional<std::int64_t>(micros % 2) : std::nullopt);
        ++proved;
      }
  EXPECT_EQ(number, 336);
  EXPECT_GE(proved, 30);
}

/// Up to 4 meshes with up to 4 stages each, 12 at most, and 16 micro-batches: all of them with
/// FOURFOLD_LONG, else every seventh.
TEST(Stages, of_every_interleaved_number_and_batch_are_proved) {
  RunSetup setup = gpt();
  setup.gpt.num_layers = 12;
  setup.plan.micro_batch_size = 1;
  std::int64_t number = 0, proved = 0;
  for (std::int64_t meshes = 1; meshes <= 4; ++meshes)
    for (std::int64_t laps = 2; laps <= 4 && meshes * laps <= 12; ++laps)
      for (std::int64_t micros = meshes; micros <= 16; micros += meshes) {
        if (number++ % 7 != 0 && !is_long_run()) continue;
        SCOPED_TRACE(format("{} meshes of {} stages, {} micro-batches", meshes, laps, micros));
        setup.plan.global_batch_size = micros;
        setup.plan.overlap.weight_gradients =
            number % 2 == 0 ? plan::WeightGradients::beside : plan::WeightGradients::in_turn;
        const std::int64_t stages = meshes * laps;
        Pipeline pipeline{{}, {}, laps};
        for (std::int64_t mesh = 0; mesh < meshes; ++mesh) pipeline.grids.push_back({.data = 1});
        for (std::int64_t stage = 1; stage < stages; ++stage)
          pipeline.last_layers.push_back(12 * stage / stages - 1);
        compile_stages(setup, pipeline, Schedule::interleaved,
                       micros % 3 == 0 ? std::optional<std::int64_t>(micros % 2) : std::nullopt);
        ++proved;
      }
  EXPECT_EQ(number, 95);
  EXPECT_GE(proved, 13);
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
    return std::get<plan::PlannedModel>(plan::plan_stages(graphs, spec));
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
    const auto made = fitted(planned(Schedule::eager_one_f_one_b, limit));
    const auto& [plan, job] = std::get<compile::Fitted>(made);
    EXPECT_LE(bytes_of(job), limit);
    EXPECT_NE(plan.orders, of_eager);
    EXPECT_EQ(plan.orders == of_1f1b, limit == least);
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
      const Gathered kept = gathered(bundle.at("train"));
      EXPECT_FALSE(kept.copies.empty());
      for (const auto& [name, number] : kept.copies) EXPECT_EQ(number, 1) << name;
      for (const auto& [name, number] : kept.gathers) EXPECT_EQ(number, 1) << name;
    }
    setup.plan.cached_gathers = 0;
    for (const program::Bundle& bundle : compile_stages(setup, on_z, schedule).classes)
      for (const auto& [name, number] : gathered(bundle.at("train")).gathers)
        EXPECT_GE(number, 3) << name << " is gathered for each of three micro-batches";
  }
  setup.plan.cached_gathers = std::nullopt;
  expect_equal_to_serial(setup, {on_z}, "gpt, gathered once");
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
    return std::get<plan::PlannedModel>(plan::plan_stages(graphs, spec));
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
      EXPECT_TRUE(verify::verify(fitted.job).empty());
      const std::vector<std::int64_t> bytes = bytes_by_mesh(plan, fitted.job);
      std::vector<std::int64_t> repeated;  // by mesh: layers, those without their products twice
      ASSERT_EQ(fitted.plan.checkpointing_of_meshes.size(), plan.meshes.size());
      for (std::size_t mesh = 0; mesh < bytes.size(); ++mesh) {
        SCOPED_TRACE(format("mesh {} of {}", mesh, plan::checkpointing_text(fitted.plan)));
        EXPECT_LE(bytes[mesh], limit);
        plan::Plan less = fitted.plan;
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
    return job.classes[0].at("train").transient_bytes;
  };
  EXPECT_EQ(transient(Schedule::one_f_one_b, 48), transient(Schedule::one_f_one_b, 24));
  const std::int64_t kept_more =
      transient(Schedule::gpipe, 24) - transient(Schedule::one_f_one_b, 24);
  EXPECT_GT(kept_more, 0);
  EXPECT_GT(transient(Schedule::gpipe, 48), transient(Schedule::gpipe, 24) + kept_more)
      << "gpipe keeps all micro-batches, of which 1f1b keeps some";
}

TEST(Stages, decide_together) {
  const RunSetup setup = gpt();
  const auto job = compile_stages(setup, four_stages[1]);
  const auto ranks = static_cast<std::int64_t>(job.ranks.size());
  GridRun grid(setup, job);
  std::mutex mutex;
  std::set<std::array<double, 3>> results;
  grid.run([&](GridRun::RankRun& rank) {
    rank.executor.run("init", SmallRun::block(0, 0, 1));
    auto feeder = test::random_batch(setup);
    op::StepBlock block = SmallRun::block(0, 1e-3, 1);
    block.vote = op::Votes{.stop = rank.rank == 3 ? 1 : 0, .written = 1}.packed();
    const auto result = rank.executor.run("train", block, &feeder);
    const auto evaluated = rank.executor.run("evaluate", block, &feeder);
    const std::lock_guard lock(mutex);
    EXPECT_EQ(result.applied, 1);
    EXPECT_EQ(op::Votes::of(result.votes), (op::Votes{.stop = 1, .written = ranks}));
    results.insert({result.loss_sum, result.grad_norm, evaluated.loss_sum});
  });
  EXPECT_EQ(results.size(), 1U) << "all ranks of all stages have the same results, bit for bit";
}

TEST(Stages, of_which_one_has_no_samples_for_a_rank_are_infeasible) {
  const RunSetup setup = gpt();
  const auto graphs = model::build(setup.model(), {4, 6, 24}, setup.optimizer);
  plan::PlanSpec spec = setup.plan;
  spec.pipeline = {.stages = 2, .grids = {{.data = 1}, {.data = 3}}};
  const auto planned = plan::plan_stages(graphs, spec);
  const auto& infeasible = std::get<plan::Infeasible>(planned);
  const auto& problem = std::get<plan::UnevenStage>(infeasible.problems.at(0));
  EXPECT_EQ(problem.stage, 1U);
  EXPECT_EQ(problem.samples, 4);
  EXPECT_EQ(problem.replicas, 3);
}

TEST(Stages, in_chunks_are_infeasible) {
  RunSetup setup = gpt();
  setup.plan.chunks = 2;
  setup.plan.pipeline = {.stages = 2, .grids = {{.data = 1}, {.data = 2}}};
  const auto graphs = model::build(setup.model(), {4, 6, 24}, setup.optimizer);
  const auto planned = plan::plan_stages(graphs, setup.plan);
  const auto& infeasible = std::get<plan::Infeasible>(planned);
  EXPECT_EQ(std::get<plan::ChunkedStages>(infeasible.problems.at(0)).chunks, 2);
}

/// Weights in float32, also those of a table that a stage receives; each stage rounds its own copy.
/// A residual stream in float32 is received as such, and is no weight. There gradients are rounded
/// before ranks of a stage add them up, and sent to another stage in float32.
TEST(Stages, in_bf16_learn_as_the_serial_run_does) {
  for (const bool wide : {false, true}) {
    SCOPED_TRACE(wide ? "wide residual stream" : "narrow residual stream");
    RunSetup setup = gpt();
    setup.plan.compute = DType::bf16;
    setup.gpt.wide_residual = wide;
    setup.plan.rounds_gradients = wide;
    setup.reference_kernels = true;
    const Tensors weights = test::rough_weights(setup);
    const auto job = compile_stages(setup, {{{.data = 1}, {.x = 1, .data = 2}}, {1}});
    const TrainingOutcome got = test::run_job(setup, job, weights, in_moments);
    const TrainingOutcome serial = run_serial(setup, {.data = 1}, weights);
    // Some 50 roundings to bf16 lie between a token and its loss.
    for (std::size_t step = 0; step < serial.losses.size(); ++step)
      EXPECT_NEAR(got.losses[step], serial.losses[step], 8 * 0x1p-8 * serial.losses[step]);
  }
}

TEST(Stages, of_a_job_are_a_text_that_reads_back_and_is_proved) {
  const std::vector<std::pair<std::size_t, Pipeline>> pipelines = {
      {6, two_stages[1]},
      {11, four_stages[2]},
      {16, {{{.x = 2, .y = 2, .z = 2, .data = 1}, {.x = 4, .y = 2, .data = 1}}, {1}}},
      {1024, {{{.x = 2, .y = 2, .z = 2, .data = 64}, {.x = 4, .y = 2, .data = 64}}, {1}}}};
  for (const auto& [ranks, pipeline] : pipelines) {
    SCOPED_TRACE(format("{} ranks", ranks));
    RunSetup setup = gpt();
    setup.plan.micro_batch_size = ranks > 16 ? 1 : 4;
    setup.plan.global_batch_size = 3 * samples_of(setup, pipeline.grids[0]);
    const auto job = compile_stages(setup, pipeline);
    EXPECT_EQ(job.ranks.size(), ranks);
    const std::string text = program::to_text(job);
    const program::Job read = program::parse_job(text, "job");
    EXPECT_TRUE(read == job);
    EXPECT_EQ(program::to_text(read), text);
    EXPECT_TRUE(verify::verify(read).empty());
  }
}

}  // namespace
}  // namespace fourfold
