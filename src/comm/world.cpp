#include "comm/world.h"

#include <algorithm>
#include <new>
#include <tuple>
#include <utility>

#include "base/format.h"

namespace fourfold::comm {

World::World(Rank rank, std::size_t size) : rank_(rank), size_(size) {
  require(rank.index() < size, "a rank is one of the world's");
}

World::~World() = default;

void World::create_groups(std::span<const GroupSpec> specs) {
  // One total order of all groups of the job, so that no two ranks can wait for each other.
  std::vector<const GroupSpec*> order;
  for (const GroupSpec& spec : specs)
    if (std::ranges::find(spec.members, rank_) != spec.members.end()) order.push_back(&spec);
  const auto key = [](const GroupSpec* spec) { return std::tie(spec->name, spec->members); };
  std::ranges::stable_sort(order, {}, key);
  for (const GroupSpec* spec : order) {
    for (const Rank member : spec->members)
      require(member.index() < size_, format("group {} has members of this world", spec->name));
    const auto same = [&](const auto& group) {
      return group->name() == spec->name && std::ranges::equal(group->members(), spec->members);
    };
    if (std::ranges::any_of(groups_, same)) continue;
    const auto place = std::ranges::find(spec->members, rank_);
    const auto position = static_cast<std::size_t>(place - spec->members.begin());
    groups_.push_back(make_group(*spec, position));
  }
}

Group& World::group(std::span<const Rank> members, std::string_view name) {
  for (const auto& group : groups_)
    if (group->name() == name && std::ranges::equal(group->members(), members)) return *group;
  fail_internal(
      format("the group {} of {} ranks was made before it is used", name, members.size()));
}

std::vector<const Group*> World::groups() const {
  std::vector<const Group*> list;
  for (const auto& group : groups_) list.push_back(group.get());
  return list;
}

void World::send(Rank peer, int tag, std::span<const std::byte> bytes) {
  require(peer.index() < size_ && peer != rank_, "a message goes to another rank of this world");
  messages_sent_.fetch_add(1, std::memory_order_relaxed);
  bytes_sent_.fetch_add(static_cast<std::int64_t>(bytes.size()), std::memory_order_relaxed);
  do_send(peer, tag, bytes);
}

void World::recv(Rank peer, int tag, std::span<std::byte> bytes) {
  require(peer.index() < size_ && peer != rank_, "a message comes from another rank of this world");
  do_recv(peer, tag, bytes);
}

Traffic World::sent() const {
  const std::int64_t bytes = bytes_sent_.load(std::memory_order_relaxed);
  return {messages_sent_.load(std::memory_order_relaxed), bytes, static_cast<double>(bytes)};
}

void World::make_everyone() {
  GroupSpec spec{.name = "everyone", .members = {}, .largest_bytes = 0};
  for (std::size_t i = 0; i < size_; ++i) spec.members.emplace_back(i);
  everyone_ = make_group(spec, rank_.index());
}

void World::clear_groups() {
  groups_.clear();
  everyone_.reset();
}

void World::barrier() {
  std::int64_t nothing = 0;
  all_reduce({&nothing, 1}, Reduction::sum);
}

void World::all_reduce(std::span<double> values, Reduction reduction) {
  everyone_->all_reduce(std::as_writable_bytes(values), DType::f64, reduction);
}

void World::all_reduce(std::span<std::int64_t> values, Reduction reduction) {
  everyone_->all_reduce(std::as_writable_bytes(values), DType::i64, reduction);
}

void World::all_reduce(std::span<std::uint64_t> values, Reduction reduction) {
  everyone_->all_reduce(std::as_writable_bytes(values), DType::u64, reduction);
}

std::vector<std::string> World::all_gather(std::string_view text) {
  const auto length = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> lengths(size_);
  everyone_->all_gather(std::as_bytes(std::span(&length, 1)),
                        std::as_writable_bytes(std::span(lengths)));
  const auto longest = static_cast<std::size_t>(std::ranges::max(lengths));
  std::string mine(text);
  mine.resize(longest);
  std::string all(longest * size_, '\0');
  everyone_->all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < size_; ++i)
    texts.push_back(all.substr(i * longest, static_cast<std::size_t>(lengths[i])));
  return texts;
}

std::string World::broadcast(std::string_view text) {
  const bool mine = rank_.index() == 0;
  auto length = mine ? static_cast<std::int64_t>(text.size()) : 0;
  all_reduce({&length, 1}, Reduction::max);
  // All but rank 0 add zeros.
  std::string bytes = mine ? std::string(text) : std::string();
  bytes.resize((static_cast<std::size_t>(length) + 7) / 8 * 8);
  everyone_->all_reduce(std::as_writable_bytes(std::span(bytes)), DType::u64, Reduction::sum);
  bytes.resize(static_cast<std::size_t>(length));
  return bytes;
}

Fault fault_of(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const UserError*>(&exception))
    return {error->code(), error->what()};
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr)
    return {ExitCode::out_of_memory, "out of memory"};
  return {ExitCode::internal, exception.what()};
}

}  // namespace fourfold::comm
