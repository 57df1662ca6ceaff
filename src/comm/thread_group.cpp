#include "comm/thread_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "comm/reduce.h"
#include "comm/world.h"

namespace fourfold::comm {
namespace {

using Call = ThreadMeetingPlace::Call;

/// Parts of an all-reduce begin on cache lines (64 bytes on x86-64), so that no line is written by
/// two members.
constexpr std::size_t line_bytes = 64;

void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

bool same(const Call& a, const Call& b) {
  return a.kind == b.kind && a.type == b.type && a.reduction == b.reduction &&
         a.from_bytes == b.from_bytes && a.to_bytes == b.to_bytes;
}

std::string text(const Call& call) {
  const bool reduces = facts_of(call.kind).reduces();
  const std::string_view how = call.reduction == Reduction::sum ? " sum" : " max";
  return format("{}{}{}{} from {} to {} bytes", to_string(call.kind), reduces ? how : "",
                reduces ? " of " : "", reduces ? to_string(call.type) : "", call.from_bytes,
                call.to_bytes);
}

}  // namespace

ThreadGroup::ThreadGroup(GroupSpec spec, std::size_t position, ThreadMeetingPlace& place)
    : Group(std::move(spec), position), place_(place), terms_(size()), results_(size()) {}

void ThreadGroup::check_calls() const {
  const auto& calls = place_.calls;
  for (std::size_t i = 1; i < calls.size(); ++i)
    if (!same(calls[i], calls[0]))
      throw UserError(
          ExitCode::ranks_disagree,
          format("the members of group {} call different collectives: rank {} {}, rank {} {}; "
                 "their programs do not fit together",
                 name(), members()[0].index(), text(calls[0]), members()[i].index(),
                 text(calls[i])));
}

/// Tells the others of this member's call, and does its share of the work once all have told
/// theirs.
void ThreadGroup::exchange(Collective kind, std::span<const std::byte> from,
                           std::span<std::byte> to, DType type, Reduction reduction) {
  const Call call{kind, type, reduction, from.data(), to.data(), from.size(), to.size()};
  place_.calls[position()] = call;
  if (!place_.begin.wait()) throw Aborted();
  const auto& calls = place_.calls;
  const bool agreed = std::ranges::all_of(calls, [&](const Call& c) { return same(c, call); });
  if (agreed) {
    work(call);
    place_.end.wait();
    return;
  }
  // Looked at before the others are let go: they may post their next call then.
  try {
    check_calls();
  } catch (const UserError&) {
    place_.end.wait();
    throw;
  }
}

void ThreadGroup::work(const Call& own) {
  const auto& calls = place_.calls;
  // Begins with its own part and goes round, so that not all read from one member.
  const auto copy_parts = [&](std::size_t bytes, std::size_t first) {
    for (std::size_t k = 0; k < size(); ++k) {
      const std::size_t i = (position() + k) % size();
      copy(own.to + i * bytes, calls[i].from + first, bytes);
    }
  };
  const CollectiveFacts& facts = facts_of(own.kind);
  if (facts.is_in_place()) {
    const std::size_t equal = (own.to_bytes + size() - 1) / size();
    const std::size_t part = (equal + line_bytes - 1) / line_bytes * line_bytes;
    const std::size_t begin = std::min(position() * part, own.to_bytes);
    const std::size_t end = std::min(begin + part, own.to_bytes);
    for (std::size_t i = 0; i < size(); ++i) {
      terms_[i] = calls[i].from;
      results_[i] = calls[i].to;
    }
    reduce(terms_, results_, begin, end, own.type, own.reduction);
  } else if (facts.reduces()) {
    for (std::size_t i = 0; i < size(); ++i) terms_[i] = calls[i].from + position() * own.to_bytes;
    results_[0] = own.to;
    reduce(terms_, {results_.data(), 1}, 0, own.to_bytes, own.type, own.reduction);
  } else if (facts.scatters()) {
    const std::size_t part = own.from_bytes / size();
    copy_parts(part, position() * part);
  } else {
    copy_parts(own.from_bytes, 0);
  }
}

}  // namespace fourfold::comm
