#include "comm/split_rounds.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::comm {
namespace {

bool is_member(const Party& party, Rank rank) {
  return std::ranges::find(party.members, rank) != party.members.end();
}

/// A line for each party: its members, each followed by a comma, and its name.
std::string lines_of(std::span<const Party> parties) {
  std::string text;
  for (const Party& party : parties) {
    for (const Rank member : party.members) text += format("{},", member.index());
    text += format(" {}\n", party.name);
  }
  return text;
}

void add_parties(std::string_view lines, std::vector<Party>& parties) {
  while (!lines.empty()) {
    Party party;
    while (lines.front() != ' ') {
      std::size_t member = 0;
      const auto end = std::from_chars(lines.data(), lines.data() + lines.size(), member).ptr;
      party.members.emplace_back(member);
      lines.remove_prefix(static_cast<std::size_t>(end - lines.data()) + 1);
    }
    const std::size_t length = lines.find('\n');
    party.name = lines.substr(1, length - 1);
    lines.remove_prefix(length + 1);
    parties.push_back(std::move(party));
  }
}

[[noreturn]] void disagree(Rank rank, const Party& party, bool is_mine) {
  const std::size_t first = party.members.front().index();
  throw UserError(
      ExitCode::ranks_disagree,
      format("rank {} wants {}, and rank {} does not; their programs do not fit "
             "together",
             is_mine ? rank.index() : first, to_string(party), is_mine ? first : rank.index()));
}

}  // namespace

std::string to_string(const Party& party) {
  std::string text = format("{} of rank{}", party.name, party.members.size() == 1 ? "" : "s");
  for (const Rank member : party.members) text += format(" {}", member.index());
  return text;
}

std::vector<Party> parties_of_all(World& world, std::span<const Party> own) {
  std::vector<Party> mine, first_here;
  for (const Party& party : own) {
    require(party.name.find('\n') == std::string::npos, "the name of a group is one line");
    for (const Rank member : party.members)
      require(member.index() < world.size(),
              [&] { return format("{} are ranks of this world", to_string(party)); });
    if (!is_member(party, world.rank())) continue;
    mine.push_back(party);
    if (party.members.front() == world.rank()) first_here.push_back(party);
  }
  std::vector<Party> all;
  for (const std::string& lines : world.all_gather(lines_of(first_here))) add_parties(lines, all);
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  for (const Party& party : mine)
    if (!std::ranges::binary_search(all, party)) disagree(world.rank(), party, true);
  for (const Party& party : all)
    if (is_member(party, world.rank()) && std::ranges::find(mine, party) == mine.end())
      disagree(world.rank(), party, false);
  return all;
}

std::vector<SplitRound> rounds_of(std::span<const Party> parties, std::size_t ranks) {
  std::vector<SplitRound> rounds;
  std::vector<std::vector<bool>> busy;  // by round and rank
  for (std::size_t i = 0; i < parties.size(); ++i) {
    const auto& members = parties[i].members;
    const auto is_free = [&](const std::vector<bool>& round) {
      return std::ranges::none_of(members, [&](Rank rank) { return round[rank.index()]; });
    };
    const auto place = std::ranges::find_if(busy, is_free);
    const auto round = static_cast<std::size_t>(place - busy.begin());
    if (place == busy.end()) {
      busy.emplace_back(ranks, false);
      rounds.emplace_back();
    }
    for (const Rank member : members) busy[round][member.index()] = true;
    rounds[round].push_back(i);
  }
  return rounds;
}

}  // namespace fourfold::comm
