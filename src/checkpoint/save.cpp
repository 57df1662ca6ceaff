#include "checkpoint/save.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "checkpoint/cover.h"
#include "checkpoint/report.h"
#include "checkpoint/shard.h"
#include "checkpoint/values.h"

namespace fourfold::checkpoint {
namespace {

std::size_t rank_of(const comm::World* world) {
  return world == nullptr ? 0 : world->rank().index();
}

}  // namespace

Saver::~Saver() {
  if (writer_.joinable()) writer_.join();
}

Digests digests_in(const Manifest& manifest) {
  Digests digests;
  for (const StoredTensor& tensor : manifest.tensors) digests[tensor.name] = tensor.digest;
  return digests;
}

void Saver::reserve(const program::Program& program) {
  snapshot_.resize(static_cast<std::size_t>(owned_bytes(program)));
}

void Saver::set_last(std::int64_t step, Digests digests) {
  last_step_ = step;
  last_ = std::move(digests);
}

void Saver::start(const Manifest& facts, const program::Program& program,
                  const BufferReads& bytes_of, Digests expected) {
  require(!is_under_way_, "one save is under way at a time");
  facts_ = facts;
  expected_ = std::move(expected);
  error_.clear();
  error_code_ = ExitCode::storage;
  folder_.clear();
  if (rank_of(world_) == 0) {
    try {
      folder_ = store_.begin(facts.step);
    } catch (const UserError& error) {
      error_ = error.what();
    }
  }
  if (world_ != nullptr) folder_ = world_->broadcast(folder_);
  is_under_way_ = true;
  is_written_ = folder_.empty();
  if (folder_.empty()) return;
  take_snapshot(program, bytes_of);
  writer_ = std::thread([this] { write_parts(); });
}

void Saver::take_snapshot(const program::Program& program, const BufferReads& bytes_of) {
  parts_.clear();
  std::size_t end = 0;
  std::vector<StateTensor> owned = state_of(program);
  std::erase_if(owned, [](const StateTensor& t) { return !t.is_owner || t.held.is_empty(); });
  for (const StateTensor& tensor : owned) {
    parts_.push_back({tensor.buffer, tensor.held, end});
    end += static_cast<std::size_t>(tensor.held.elements() * size_bytes(tensor.buffer->dtype));
  }
  snapshot_.resize(end);
  for (std::size_t i = 0; i < owned.size(); ++i)
    copy_box(owned[i].held, owned[i].memory, bytes_of(*owned[i].buffer), owned[i].held,
             std::span(snapshot_).subspan(parts_[i].first_byte),
             size_bytes(owned[i].buffer->dtype));
}

void Saver::write_parts() {
  try {
    std::vector<TensorView> tensors;
    file_ = {};
    is_finite_ = true;
    for (Part& part : parts_) {
      const auto bytes =
          static_cast<std::size_t>(part.box.elements() * size_bytes(part.buffer->dtype));
      const auto memory = std::span<const std::byte>(snapshot_).subspan(part.first_byte, bytes);
      examine(part, memory);
      tensors.push_back({part.buffer->name, part.buffer->dtype, part.box.extent, memory});
    }
    if (!tensors.empty()) {
      file_ = write_shard(store_.files(), folder_, shard_name(rank_of(world_)), tensors,
                          store_.patience_s());
      check_shard(store_.files(), folder_, file_);
    }
  } catch (const std::bad_alloc&) {
    error_ = "out of memory while it was written";
    error_code_ = ExitCode::out_of_memory;
  } catch (const std::exception& error) {
    error_ = error.what();
  }
  is_written_ = true;
}

void Saver::examine(Part& part, std::span<const std::byte> memory) {
  part.digest = digest_of(part.buffer->name, part.buffer->dtype, part.buffer->global, part.box,
                          part.box, memory);
  if (!is_finite(part.buffer->dtype, memory)) is_finite_ = false;
}

SaveResult Saver::finish() {
  require(is_under_way_, "a save that is finished was started");
  if (writer_.joinable()) writer_.join();
  is_under_way_ = false;
  const std::string own = report();
  const auto reports = world_ == nullptr ? std::vector{own} : world_->all_gather(own);
  SaveResult result;
  if (rank_of(world_) == 0) result = commit(reports);
  if (world_ != nullptr) {
    result.error = world_->broadcast(result.error);
    result.code = static_cast<ExitCode>(
        std::stoi(world_->broadcast(format("{}", static_cast<int>(result.code)))));
    result.step = facts_.step;
  }
  return result;
}

std::string Saver::report() const {
  RankReport own;
  own.error = error_;
  own.code = error_code_;
  own.is_finite = is_finite_;
  if (error_.empty() && !folder_.empty() && !file_.name.empty()) {
    own.file = file_;
    for (const Part& part : parts_)
      own.parts.push_back(
          {part.buffer->name, part.buffer->dtype, part.buffer->global, part.box, part.digest});
  }
  return to_text(own);
}

SaveResult Saver::commit(const std::vector<std::string>& reports) {
  SaveResult result;
  result.step = facts_.step;
  result.path = store_.path_of(facts_.step);
  try {
    Manifest manifest = facts_;
    for (std::size_t rank = 0; rank < reports.size(); ++rank)
      add_report(manifest, parse_report(reports[rank]), rank);
    check_complete(manifest, expected_);
    check_news(manifest);
    store_.commit(folder_, manifest);
    set_last(manifest.step, digests_in(manifest));
    result.bytes = manifest.size_bytes();
  } catch (const UserError& error) {
    result.error = error.what();
    result.code = error.code();
    if (!folder_.empty()) store_.abandon(folder_);
  }
  return result;
}

void Saver::check_news(const Manifest& manifest) const {
  // The count of updates is a tensor too: a step that changes no weight still changes that.
  if (last_.empty() || manifest.step == last_step_ || digests_in(manifest) != last_) return;
  throw UserError(ExitCode::storage,
                  format("step {}: the bytes to be saved are those of step {}; the copy is stale",
                         manifest.step, last_step_));
}

}  // namespace fourfold::checkpoint
