#include "verify/mutation_lists.h"

namespace fourfold::verify {
namespace {

using Job = std::vector<Bundle>;

/// A recv and the send after it change places on a rank whose peer sends first: both then send
/// before either receives.
std::optional<Seeded> circular_sends(Job& job, std::mt19937& random) {
  const auto send_behind = [&](const Program& program,
                               std::size_t at) -> std::optional<std::size_t> {
    const auto* recv = std::get_if<Recv>(&program.instructions[at].what);
    if (recv == nullptr) return std::nullopt;
    for (std::size_t i = at + 1; i < program.instructions.size(); ++i) {
      const auto* send = std::get_if<Send>(&program.instructions[i].what);
      if (std::holds_alternative<Recv>(program.instructions[i].what)) return std::nullopt;
      if (send == nullptr) continue;
      if (send->peer != recv->peer || send->tag != recv->tag || !is_ordered(program, at, i))
        return std::nullopt;
      return i;
    }
    return std::nullopt;
  };
  const auto site = pick(job, random, [&](const Program& program, std::size_t at) {
    if (!send_behind(program, at)) return false;
    // The peer must send the one before it takes the other.
    const auto& recv = std::get<Recv>(program.instructions[at].what);
    if (recv.peer.index() >= job.size()) return false;
    for (const Program& theirs : job[recv.peer.index()].programs) {
      if (theirs.kind != program.kind) continue;
      std::optional<std::size_t> sent;
      for (std::size_t i = 0; i < theirs.instructions.size(); ++i) {
        const auto* send = std::get_if<Send>(&theirs.instructions[i].what);
        const auto* taken = std::get_if<Recv>(&theirs.instructions[i].what);
        if (send != nullptr && send->peer == program.rank && send->tag == recv.tag) sent = i;
        if (taken != nullptr && taken->peer == program.rank && taken->tag == recv.tag)
          return sent && is_ordered(theirs, *sent, i);
      }
    }
    return false;
  });
  return on_one(job, site, [&](const Site& at) {
    swap_whats(job, at, *send_behind(program_at(job, at), at.instruction));
  });
}

template <class Kind>
std::optional<Site> pick_message(Job& job, std::mt19937& random) {
  return pick_kind<Kind>(job, random, [](const Program&, const Kind&) { return true; });
}

void add_messages(std::vector<Mutation>& list) {
  list.push_back({"a send dropped", {"matching"}, true, [](Job& job, std::mt19937& random) {
                    return on_one(job, pick_message<Send>(job, random),
                                  [&](const Site& site) { erase_at(job, site); });
                  }});
  list.push_back({"a recv dropped", {"matching"}, true, [](Job& job, std::mt19937& random) {
                    return on_one(job, pick_message<Recv>(job, random),
                                  [&](const Site& site) { erase_at(job, site); });
                  }});
  list.push_back(
      {"a send without a recv", {"matching", "deadlock"}, true, [](Job& job, std::mt19937& random) {
         return on_one(job, pick_message<Send>(job, random),
                       [&](const Site& site) { double_at(job, site); });
       }});
  list.push_back({"another peer", {"matching"}, true, [](Job& job, std::mt19937& random) {
                    const auto site = pick_kind<Send>(
                        job, random,
                        [](const Program& program, const Send&) { return program.world > 2; });
                    return on_one(job, site, [&](const Site& at) {
                      auto& peer = kind_at<Send>(job, at).peer;
                      const std::size_t old = peer.index();
                      for (std::size_t i = 0; i < job.size(); ++i)
                        if (i != old && i != at.rank) peer = Rank(i);
                    });
                  }});
  list.push_back(
      {"a peer outside of the world", {"bounds"}, true, [](Job& job, std::mt19937& random) {
         return on_one(job, pick_message<Recv>(job, random),
                       [&](const Site& site) { kind_at<Recv>(job, site).peer = Rank(job.size()); });
       }});
  list.push_back({"another tag", {"matching"}, true, [](Job& job, std::mt19937& random) {
                    return on_one(job, pick_message<Send>(job, random),
                                  [&](const Site& site) { kind_at<Send>(job, site).tag += 1000; });
                  }});
  list.push_back(
      {"a message of part of the rows", {"matching"}, true, [](Job& job, std::mt19937& random) {
         const auto site =
             pick_kind<Send>(job, random, [](const Program& program, const Send& what) {
               return what.from.row_bytes > size_bytes(program.buffer(what.from.buffer).dtype) &&
                      what.from.row_bytes % 8 == 0 &&
                      program.buffer(what.from.buffer).role != BufferRole::result_block;
             });
         return on_all(job, site,
                       [&](const Site& each) { kind_at<Send>(job, each).from.row_bytes /= 2; });
       }});
  list.push_back({"sends in a circle", {"deadlock"}, true, circular_sends});
}

Ranks ranks_of(const std::vector<Rank>& list) {
  Ranks ranks;
  for (const Rank rank : list) ranks.push_back(rank);
  return ranks;
}

void add_groups(std::vector<Mutation>& list) {
  const auto change = [](const std::function<bool(Job&, const Site&, Group&)>& edit) {
    return [edit](Job& job, std::mt19937& random) -> std::optional<Seeded> {
      const auto site = pick_shared(job, random);
      if (!site) return std::nullopt;
      Program& program = program_at(job, *site);
      const Seeded result = seeded(job, *site, true);
      Group& group = program.groups[group_of(program.instructions[site->instruction])->index()];
      return edit(job, *site, group) ? std::optional(result) : std::nullopt;
    };
  };
  list.push_back(
      {"members in another order", {"groups"}, false, change([](Job&, const Site&, Group& group) {
         std::vector<Rank> members(group.members.begin(), group.members.end());
         std::swap(members[0], members[1]);
         group.members = ranks_of(members);
         return true;
       })});
  list.push_back({"members of another line",
                  {"groups"},
                  false,
                  change([](Job& job, const Site& site, Group& group) {
                    for (const Bundle& bundle : job)
                      for (const Group& other : bundle.programs[site.program].groups)
                        if (other.name == group.name && other.mesh == group.mesh &&
                            other.members != group.members) {
                          group.members = other.members;
                          return true;
                        }
                    return false;
                  })});
  list.push_back(
      {"a member missing", {"groups"}, false, change([](Job&, const Site& site, Group& group) {
         std::vector<Rank> members(group.members.begin(), group.members.end());
         const auto other = std::ranges::find_if(
             members, [&](Rank member) { return member.index() != site.rank; });
         members.erase(other);
         group.members = ranks_of(members);
         return true;
       })});
}

}  // namespace

void add_message_mutations(std::vector<Mutation>& list) {
  add_messages(list);
  add_groups(list);
}

}  // namespace fourfold::verify
