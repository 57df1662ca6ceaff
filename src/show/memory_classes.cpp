#include "show/memory_classes.h"

#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "compile/place_buffers.h"

namespace fourfold::show {
namespace {

using program::Buffer;
using program::BufferRole;
using program::Program;

/// What is alive at the fullest instruction, for people.
enum class Live : std::uint8_t { activations, weights, gradients, workspace, feeds, outputs };
constexpr std::array<std::pair<Live, std::string_view>, 6> live_names = {{
    {Live::activations, "activations"},
    {Live::weights, "weights in use"},
    {Live::gradients, "gradients"},
    {Live::workspace, "workspace"},
    {Live::feeds, "inputs"},
    {Live::outputs, "outputs"},
}};

Live live_class(const Program& program, const Buffer& buffer) {
  switch (buffer.role) {
    case BufferRole::gradient:
      return Live::gradients;
    case BufferRole::workspace:
      return Live::workspace;
    case BufferRole::feed:
      return Live::feeds;
    case BufferRole::output:
      return Live::outputs;
    default:
      break;
  }
  // Parts of sums and converted weights carry the name of what they are made from.
  if (buffer.name.starts_with("gradient/")) return Live::gradients;
  const auto source = program.find_buffer(buffer.name.substr(0, buffer.name.find('/')));
  const bool is_weight = source && program.buffer(*source).role == BufferRole::parameter;
  return is_weight ? Live::weights : Live::activations;
}

void add(std::vector<MemoryClass>& classes, std::string_view name, std::int64_t bytes,
         std::int64_t& rest) {
  if (bytes == 0) return;
  classes.push_back({std::string(name), bytes});
  rest -= bytes;
}

}  // namespace

RankMemory rank_memory(const job::Job& job) {
  constexpr std::array<std::pair<BufferRole, std::string_view>, 5> kept = {{
      {BufferRole::parameter, "parameters"},
      {BufferRole::rounded, "rounded parameters"},
      {BufferRole::moment, "optimizer"},
      {BufferRole::average, "averages of parameters"},
      {BufferRole::cache, "keys and values of texts"},
  }};
  RankMemory result;
  std::map<BufferRole, std::int64_t> by_role;
  for (const auto& entry : program::persistent_memory_by_role(job.bundle().programs[0]))
    by_role[entry.role] = entry.bytes;
  std::int64_t rest = job.bundle().persistent_bytes;
  for (const auto& [role, name] : kept) add(result.persistent, name, by_role[role], rest);
  add(result.persistent, "blocks and counters", rest, rest);

  const Program& train = job.bundle().at(op::ProgramKind::train);
  const compile::LivePeak peak = compile::live_peak(train);
  result.fullest_instruction = peak.instruction;
  std::map<Live, std::int64_t> live;
  for (const program::BufferId id : peak.buffers)
    live[live_class(train, train.buffer(id))] += train.buffer(id).size_bytes;
  rest = job.bundle().transient_bytes;
  for (const auto& [which, name] : live_names) add(result.transient, name, live[which], rest);
  add(result.transient, "gaps", rest, rest);
  rest = job::checkpoint_copy_bytes(job);
  add(result.beside, "copy for checkpoints", rest, rest);
  return result;
}

}  // namespace fourfold::show
