// What a CUDA backend does once, before any program runs.
#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "program/text.h"
#include "run/cuda/cuda_backend.h"
#include "run/describe.h"
#include "run/program_groups.h"

namespace fourfold::run::cuda {
namespace {

/// What cudaMalloc gives at least, and more than any vector access needs.
constexpr std::int64_t region_alignment = 256;
std::int64_t aligned(std::int64_t bytes) {
  return (bytes + region_alignment - 1) / region_alignment * region_alignment;
}

/// Kernels that wait for their stream cannot be captured.
bool waits_on_host(const program::Instruction& instruction) {
  const auto* compute = std::get_if<program::Compute>(&instruction.what);
  return compute != nullptr &&
         (compute->op.is<op::InitNormal>() || compute->op.is<op::InitUniform>());
}

/// 2 where the tensors of a row lie elsewhere in a step of the other parity, else 1.
std::size_t num_places(const PreparedCompute& compute) {
  const auto place = &kernels::Tensor::data;
  return std::ranges::equal(compute.operands[0], compute.operands[1], {}, place, place) ? 1 : 2;
}

}  // namespace

void CudaBackend::bind(const program::Bundle& bundle) {
  require(programs_.empty(), "a backend is bound once");
  // What libraries take of the memory is taken first.
  if (options_.device_world != nullptr) {
    options_.device_world->create_groups(groups_of(bundle));
    options_.device_world->create_channels(message_channels(bundle));
  }
  const std::int64_t persistent = aligned(bundle.persistent_bytes),
                     transient = aligned(bundle.transient_bytes);
  std::byte* const memory = allocate(std::max(persistent + transient, region_alignment));
  regions_ = {{memory, static_cast<std::size_t>(persistent)},
              {memory + persistent, static_cast<std::size_t>(transient)}};
  const std::vector<Shape> scalars(op::operands(op::Vote{}).size());
  blocks_ = std::make_unique<PinnedBlocks>(
      device_, options_.prepare("own", {op::Vote{}, DType::f32, scalars, 1}));
  main_ = make_stream(device_);
  fork_ = make_event(device_, Device::Timing::off);
  first_ended_ = make_event(device_, Device::Timing::off);
  staging_ = std::make_unique<Staging>(device_, options_.staging_block_bytes);
  for (const program::Program& program : bundle.programs) prepare(program);
  give_rooms();
  for (const auto& loaded : programs_) load(*loaded);
  mark_exchanges();
  rehearse();
  start_threads();
  show_progress();
}

std::byte* CudaBackend::allocate(std::int64_t bytes) {
  if (options_.allocate) return options_.allocate(bytes);
  if (options_.device_world != nullptr)
    if (std::byte* const memory = options_.device_world->allocate(bytes)) return memory;
  memory_.push_back(make_memory(device_, bytes));
  return memory_.back().get();
}

void CudaBackend::prepare(const program::Program& program) {
  Peers peers;
  if (options_.device_world != nullptr) {
    peers = {options_.world, options_.device_world};
    require(program.rank == options_.world->rank() &&
                program.world == static_cast<std::int64_t>(options_.world->size()),
            "a rank runs the programs that were compiled for it");
  }
  auto loaded = std::make_unique<Loaded>();
  loaded->prepared = prepare_program(program, regions_, peers);
  programs_.push_back(std::move(loaded));
}

/// For messages of several rows: for one at a time on each stream.
void CudaBackend::give_rooms() {
  std::map<std::string, std::size_t> bytes;
  for (const auto& loaded : programs_) {
    const std::vector<std::size_t> room = room_for_messages(loaded->prepared);
    for (std::size_t stream = 0; stream < room.size(); ++stream) {
      std::size_t& most = bytes[loaded->prepared.program->streams[stream]];
      most = std::max(most, room[stream]);
    }
  }
  std::map<std::string, std::byte*> rooms;
  for (const auto& [stream, most] : bytes)
    if (most > 0) rooms[stream] = allocate(static_cast<std::int64_t>(most));
  for (const auto& loaded : programs_)
    for (std::size_t i = 0; i < loaded->prepared.instructions.size(); ++i) {
      auto* message = std::get_if<PreparedMessage>(&loaded->prepared.instructions[i].what);
      if (message == nullptr || message->dense_bytes() == 0) continue;
      const program::Program& program = *loaded->prepared.program;
      const program::StreamId stream = program.instructions[i].stream;
      message->dense = {rooms.at(program.streams[stream.index()]), message->dense_bytes()};
    }
}

void CudaBackend::load(Loaded& loaded) {
  const program::Program& program = *loaded.prepared.program;
  loaded.feeds = std::make_unique<PinnedFeeds>(device_, loaded.prepared);
  while (events_.size() < program.num_events)
    events_.push_back(make_event(device_, Device::Timing::off));
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    loaded.works.push_back(work_of(loaded, i));
    if (waits_on_host(program.instructions[i])) loaded.waits_on_host = true;
  }
}

/// On a device that may wait for other ranks.
void CudaBackend::mark_exchanges() {
  if (options_.device_world == nullptr || !options_.device_world->can_be_captured()) return;
  std::size_t longest = 0;
  for (const auto& loaded : programs_) {
    const program::Program& program = *loaded->prepared.program;
    longest = std::max(longest, program.instructions.size());
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      if (!communicates(program, program.instructions[i])) continue;
      const auto stream = std::ranges::find_if(
          streams_, [&](const OwnedStream& one) { return one.get() == loaded->works[i].stream; });
      loaded->exchanges.push_back({i, static_cast<std::size_t>(stream - streams_.begin())});
      loaded->works[i].marked = loaded->exchanges.back();
    }
  }
  marks_ =
      std::make_unique<ExchangeMarks>(device_, longest, streams_.size(), *staging_, main_.get());
}

/// Runs the kernels and copies of all programs once, over zeros and without other ranks, so that
/// all code is loaded, and libraries have taken their memory, before any kernel waits for another
/// rank. Loading code may need the device to be idle (CUDA C++ Programming Guide, "Lazy Loading",
/// "Concurrent Execution"); so does cudaMalloc. A stage of a pipeline that waits for its first
/// message would otherwise wait for a rank that does the same. Cost: about what one step
/// computes, and what two steps move.
void CudaBackend::rehearse() {
  if (options_.device_world == nullptr || !options_.device_world->can_be_captured()) return;
  const auto clear = [&](std::span<std::byte> memory) {
    const auto bytes = static_cast<std::int64_t>(memory.size());
    if (bytes > 0) device_.clear(memory.data(), bytes, bytes, 1, main_.get());
  };
  const auto clear_all = [&] {
    clear(regions_.persistent);
    clear(regions_.transient);
  };
  clear_all();  // what is looked up by numbers that are not there yet is the first one
  for (const auto& loaded : programs_) {
    rehearse_blocks(loaded->prepared.blocks);
    for (std::size_t i = 0; i < loaded->works.size(); ++i) {
      const Work& work = loaded->works[i];
      const auto& what = loaded->prepared.instructions[i].what;
      // Both parities, where addresses differ: how wide accesses are goes by them.
      if (const auto* compute = std::get_if<PreparedCompute>(&what))
        for (std::size_t parity = 0; parity < num_places(*compute); ++parity)
          work.kernel(compute->operands[parity], compute->workspace[parity], main_.get());
      if (const auto* message = std::get_if<PreparedMessage>(&what)) clear(message->dense);
      for (const Move& move : work.moves)
        if (move) move(main_.get());
    }
  }
  clear_all();
  device_.synchronize(main_.get());
}

/// Runs the copies that begin and end a step, and the vote between two steps. The host writes
/// pinned blocks anew before anybody reads them.
void CudaBackend::rehearse_blocks(const PreparedBlocks& blocks) {
  for (const std::size_t parity : {0U, 1U}) {
    if (std::byte* const step = blocks.step[parity])
      device_.copy(blocks_->step_to(step, parity), main_.get());
    if (std::byte* const result = blocks.result[parity]) {
      clear_result(result);
      device_.copy(blocks_->result_from(result, parity), main_.get());
    }
  }
  blocks_->vote_behind(0, 1, main_.get());
  if (marks_) marks_->begin(main_.get());
}

/// Where ranks meet on the host.
void CudaBackend::start_threads() {
  if (options_.device_world == nullptr || options_.device_world->can_be_captured()) return;
  std::vector<PreparedProgram*> programs;
  for (const auto& loaded : programs_) programs.push_back(&loaded->prepared);
  const std::vector<WorkerPlan> plans = assign_workers(programs, options_.world);
  for (const WorkerPlan& plan : plans) thread_names_.push_back(plan.name);
  threads_ = std::make_unique<IssuingThreads>(
      plans, events_.size(),
      IssuingThreads::Calls{
          .enter = [this] { device_.enter(); },
          .issue = [this](std::size_t thread, std::size_t i) { issue_on_thread(thread, i); },
          .failed =
              [this](const IssuingThreads::Fault& fault) { end_job(fault_of_thread(fault)); }});
}

CudaBackend::Work CudaBackend::work_of(const Loaded& loaded, std::size_t instruction) {
  const program::Program& program = *loaded.prepared.program;
  const program::Instruction& said = program.instructions[instruction];
  Work work;
  work.stream = stream_of(program.streams[said.stream.index()]);
  work.name = program::short_text(program, said);
  if (const auto* compute = std::get_if<program::Compute>(&said.what))
    work.kernel = options_.prepare(compute->implementation, {compute->op, compute->dtype,
                                                             program.operand_shapes(*compute), 1});
  for (const std::size_t parity : {0U, 1U})
    if (std::holds_alternative<program::Feed>(said.what))
      work.moves[parity] = [this, copy = loaded.feeds->copy_of(instruction, parity)](
                               Stream stream) { device_.copy(copy, stream); };
    else
      work.moves[parity] = move_of(loaded.prepared.instructions[instruction], parity);
  return work;
}

Stream CudaBackend::stream_of(const std::string& name) {
  const auto place = std::ranges::find(stream_names_, name);
  if (place != stream_names_.end())
    return streams_[static_cast<std::size_t>(place - stream_names_.begin())].get();
  stream_names_.push_back(name);
  // The all-reduce of an input's gradient goes before the product of the weight's gradient, which
  // has room for nothing beside it.
  streams_.push_back(make_stream(
      device_, program::computes(name) ? Device::Priority::normal : Device::Priority::urgent));
  joins_.push_back(make_event(device_, Device::Timing::off));
  return streams_.back().get();
}

/// After the threads, one worker stands for the whole device: it is at the end of a program's
/// instructions, and tells how far it is where exchanges are marked.
void CudaBackend::show_progress() {
  if (options_.world == nullptr) return;
  std::vector<std::string> names = thread_names_;
  names.emplace_back("gpu");
  options_.world->progress().set_workers(std::move(names), [this](comm::Place place) {
    const program::Program& program = *programs_[place.program]->prepared.program;
    if (place.instruction < program.instructions.size())
      return describe_place(program, place.instruction);
    const auto open =
        marks_ ? marks_->first_open(programs_[place.program]->exchanges) : std::nullopt;
    return comm::Progress::Description{
        format("program {} on {}{}", op::to_string(program.kind), device_.name(),
               open ? format(", before the end of {}", describe_instruction(program, *open)) : ""),
        false};
  });
}

}  // namespace fourfold::run::cuda
