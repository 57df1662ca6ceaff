// What of a rank's memory a checkpoint holds: parameters, moments and the count of updates.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_view.h"
#include "checkpoint/box.h"
#include "program/job.h"
#include "program/program.h"

namespace fourfold::checkpoint {

/// The memory of a buffer of the program, wherever it is: to be filled, and only to be read.
using BufferBytes = std::function<HostView<std::byte>(const program::Buffer&)>;
using BufferReads = std::function<HostView<const std::byte>(const program::Buffer&)>;

/// A tensor of the state, as one rank holds it.
struct StateTensor {
  const program::Buffer* buffer = nullptr;
  Box memory;             // dense; beyond the tensor's end it is padded
  Box held;               // of the tensor; may be empty
  bool is_owner = false;  // the first of those that hold the same, who saves it
};

/// All of them, in the order of the program's buffers. The program is this rank's own. What several
/// meshes count alike is owned on the first of them.
std::vector<StateTensor> state_of(const program::Program& program);

/// The state of a job: each tensor once, as the mesh that has it holds it.
struct JobState {
  JobState() = default;
  /// What one program knows: all of it where the job is on one mesh.
  JobState(const program::Program& program);  // NOLINT(google-explicit-constructor)
  /// By mesh, and then in the order of its programs' buffers.
  explicit JobState(const program::Job& job);

  std::vector<Mesh> meshes;
  std::vector<program::Buffer> tensors;
  bool is_whole = true;  // false: other meshes have more

 private:
  void add(const program::Program& program);
};

/// What a rank's copy of the tensors that it saves takes.
std::int64_t owned_bytes(const program::Program& program);
/// What all tensors of the state take, whole: a checkpoint but for headers and the manifest.
std::int64_t whole_bytes(const JobState& state);
/// What the parameters alone take.
std::int64_t parameter_bytes(const JobState& state);

/// Digest by name of a tensor, mod 2^64.
using Digests = std::map<std::string, std::uint64_t>;

/// Sum mod 2^64 of digest_term over the elements of `held`, which stand in the dense memory of a
/// box. The stream is that of the tensor's name, the index that in the whole tensor.
std::uint64_t digest_of(std::string_view name, DType dtype, const Shape& shape, const Box& held,
                        const Box& memory, std::span<const std::byte> bytes);

}  // namespace fourfold::checkpoint
