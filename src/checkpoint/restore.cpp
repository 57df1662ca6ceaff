#include "checkpoint/restore.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::checkpoint {
namespace {

bool is_first(const comm::World* world) {
  return world == nullptr || world->rank().index() == 0;
}

/// What `what` throws, on the first rank on which it does; empty: on none. Same on all ranks.
/// Errors: UserError(storage), on all ranks, where a rank could not read what may well hold.
std::string first_problem(comm::World* world, const std::function<void()>& what) {
  std::string problem, unread;
  try {
    what();
  } catch (const UserError& error) {
    (error.code() == ExitCode::storage ? unread : problem) = error.what();
  }
  const auto first_of_all = [&](const std::string& own) {
    if (world == nullptr) return own;
    const std::vector<std::string> all = world->all_gather(own);
    const auto found =
        std::find_if(all.begin(), all.end(), [](const std::string& text) { return !text.empty(); });
    return found == all.end() ? std::string() : *found;
  };
  unread = first_of_all(unread);
  if (!unread.empty()) throw UserError(ExitCode::storage, unread);
  return first_of_all(problem);
}

/// For rank 0: the newest before a step. Errors: UserError(no_checkpoint) that says why there is
/// none, or why the run may not continue from it.
Found find_older(const Store& store, std::int64_t step, const RestoreChoice& choice,
                 std::string problems) {
  auto newest = store.newest(step);
  for (const Refused& refused : newest.refused) problems += "\n  " + refused.why;
  if (!newest.found)
    throw UserError(ExitCode::no_checkpoint, nothing_whole_in(store.folder(), problems));
  if (choice.check) choice.check(newest.found->manifest);
  return std::move(*newest.found);
}

}  // namespace

std::string nothing_whole_in(const std::string& folder, const std::string& problems) {
  return format(
      "{}: every checkpoint is damaged or cannot be read; bring a copy, or begin in another folder "
      "with --set run.dir=..., which leaves these as they are:{}",
      folder, problems);
}

std::optional<Found> share(const std::optional<Found>& found, comm::World& world) {
  const bool is_root = world.rank().index() == 0;
  const std::string path = world.broadcast(is_root && found ? found->path : std::string());
  if (path.empty()) return std::nullopt;
  const std::string text = world.broadcast(is_root ? to_text(found->manifest) : std::string());
  if (is_root) return found;
  return Found{path, parse_manifest(text, format("{}/{}", path, manifest_name))};
}

void check_digests(const Found& found, const Digests& loaded, comm::World* world) {
  std::vector<std::uint64_t> sums;
  for (const StoredTensor& tensor : found.manifest.tensors) {
    const auto part = loaded.find(tensor.name);
    sums.push_back(part == loaded.end() ? 0 : part->second);
  }
  if (world != nullptr) world->all_reduce(std::span(sums), Reduction::sum);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const StoredTensor& tensor = found.manifest.tensors[i];
    if (sums[i] == tensor.digest) continue;
    throw UserError(ExitCode::no_checkpoint,
                    format("{}: {} has the digest {:016x} once it is loaded, its manifest says "
                           "{:016x}; the checkpoint is damaged",
                           found.path, tensor.name, sums[i], tensor.digest));
  }
}

Found restore(Store& store, Found first, const RestoreChoice& choice,
              const program::Program& program, const BufferBytes& bytes_of, comm::World* world) {
  check_fits(first, program);
  std::string all_problems;
  for (Found found = std::move(first);;) {
    Digests loaded;
    std::string problem = first_problem(world, [&] {
      try {
        loaded = load_state(store.files(), found, program, bytes_of,
                            is_first(world) ? 0 : store.patience_s());
      } catch (const FileError& error) {
        if (error.code() != ExitCode::storage) throw;
        throw UserError(ExitCode::storage, not_known(error.what()));
      }
    });
    if (problem.empty())
      problem = first_problem(world, [&] { check_digests(found, loaded, world); });
    if (problem.empty()) {
      if (is_first(world)) store.set_whole(found.manifest.step);
      return found;
    }
    if (!choice.may_fall_back) throw UserError(ExitCode::no_checkpoint, problem);
    all_problems += "\n  " + problem;
    std::optional<Found> older;
    const std::string obstacle = first_problem(world, [&] {
      if (is_first(world)) older = find_older(store, found.manifest.step, choice, all_problems);
    });
    if (!obstacle.empty()) throw UserError(ExitCode::no_checkpoint, obstacle);
    if (world != nullptr) older = share(older, *world);
    require(older.has_value(), "rank 0 has found an older checkpoint");
    if (is_first(world) && choice.warn)
      choice.warn(
          format("the checkpoint of step {} is damaged and passed over for that of step "
                 "{}: {}",
                 found.manifest.step, older->manifest.step, problem));
    found = std::move(*older);
  }
}

}  // namespace fourfold::checkpoint
