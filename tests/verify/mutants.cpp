#include "verify/mutants.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "program/text.h"
#include "verify/mutant_places.h"

namespace fourfold::verify {
namespace {

const std::vector<MutantKind>& all_mutant_kinds() {
  static const std::vector<MutantKind> all = [] {
    std::vector<MutantKind> list;
    add_operand_mutants(list);
    add_row_mutants(list);
    add_attribute_mutants(list);
    add_exchange_mutants(list);
    add_message_mutants(list);
    add_memory_mutants(list);
    add_update_mutants(list);
    add_everywhere_mutants(list);
    return list;
  }();
  return all;
}

/// A change with where it was drawn.
struct DrawnChange {
  std::size_t of_class = 0, program = 0;
  Landmark landmark;
  std::string slot;
  Change change;
  bool in_all_micros = false;
  bool is_bound = false, is_everywhere = false;  // as MutantKind has them
};

std::string first_slot(const Program& program, const Instruction& instruction) {
  for (const Access& access : touched(instruction)) {
    const auto slot = split_slot(program.buffer(access.slice.buffer).name).second;
    if (!slot.empty()) return std::string(slot);
  }
  return {};
}

/// Where the change is made in a program: what corresponds to the drawn instruction there, in one
/// micro-batch or in all.
std::vector<std::size_t> places_of(const DrawnChange& drawn, const Program& program) {
  if (drawn.is_everywhere) return {0};
  std::vector<std::size_t> places;
  std::vector<std::optional<std::int64_t>> micros = {drawn.landmark.micro};
  if (drawn.in_all_micros)
    for (const Task& task : program.tasks)
      if (task.kind == drawn.landmark.task && task.micro &&
          std::ranges::find(micros, task.micro) == micros.end())
        micros.push_back(task.micro);
  for (const auto& micro : micros) {
    Landmark landmark = drawn.landmark;
    landmark.micro = micro;
    if (const auto at = find(program, landmark)) places.push_back(*at);
  }
  // From the last one on, so that those before stay where they are.
  std::ranges::sort(places, std::greater());
  return places;
}

/// Makes the change in the program of the drawn kind; false where it cannot be made anywhere.
bool apply(const DrawnChange& drawn, Bundle& bundle, op::ProgramKind kind) {
  bool is_made = false;
  for (Program& program : bundle.programs) {
    if (program.kind != kind || program.instructions.empty()) continue;
    for (const std::size_t at : places_of(drawn, program)) {
      const std::string slot = first_slot(program, program.instructions[at]);
      is_made |= drawn.change({program, at, drawn.landmark.micro, drawn.slot, slot});
    }
  }
  return is_made;
}

/// The peers of a rank for the channels of a bundle that was changed: those that it had before, for
/// new ones those of channels to the same rank of the class.
std::vector<Rank> peers_after(const std::vector<Channel>& before, const std::vector<Rank>& peers,
                              const Bundle& changed) {
  std::vector<Rank> list;
  for (const Channel& channel : channels_of(changed)) {
    const auto same = std::ranges::find(before, channel);
    const auto alike = std::ranges::find_if(before, [&](const Channel& other) {
      return other.peer == channel.peer && other.sends == channel.sends;
    });
    const auto found = same != before.end() ? same : alike;
    list.push_back(found == before.end() ? channel.peer
                                         : peers[static_cast<std::size_t>(found - before.begin())]);
  }
  return list;
}

/// Changes the bundle of a class, with that of all of its ranks.
bool change_class(Job& job, std::size_t of_class, const DrawnChange& drawn, op::ProgramKind kind) {
  Bundle changed = job.classes[of_class];
  if (!apply(drawn, changed, kind) || changed == job.classes[of_class]) return false;
  const std::vector<Channel> before = channels_of(job.classes[of_class]);
  for (Binding& binding : job.ranks)
    if (binding.of_class == of_class) binding.peers = peers_after(before, binding.peers, changed);
  job.classes[of_class] = std::move(changed);
  return true;
}

/// The ranks of a class.
std::vector<std::size_t> ranks_of(const Job& job, std::size_t of_class) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank)
    if (job.ranks[rank].of_class == of_class) ranks.push_back(rank);
  return ranks;
}

/// Gives a rank a class of its own, with the bundle that it has.
void set_apart(Job& job, std::size_t rank) {
  const std::uint32_t old = job.ranks[rank].of_class;
  const std::vector<std::size_t> ranks = ranks_of(job, old);
  if (ranks.size() < 2) return;
  job.classes.push_back(bundle_of(job, Rank(rank)));
  if (ranks[0] == rank) job.classes[old] = bundle_of(job, Rank(ranks[1]));
  job.ranks[rank].of_class = static_cast<std::uint32_t>(job.classes.size() - 1);
}

/// Makes the change on the ranks that it is to spread to.
bool spread_change(Job& job, const DrawnChange& drawn, Spread spread, Draws& random) {
  const op::ProgramKind kind = job.classes[drawn.of_class].programs[drawn.program].kind;
  if (spread == Spread::one_class) return change_class(job, drawn.of_class, drawn, kind);
  if (spread == Spread::one_rank) {
    const std::vector<std::size_t> ranks = ranks_of(job, drawn.of_class);
    const std::size_t rank = pick_of(ranks, random);
    set_apart(job, rank);
    return change_class(job, job.ranks[rank].of_class, drawn, kind);
  }
  if (drawn.is_bound)
    for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) set_apart(job, rank);
  bool is_made = false;
  for (std::size_t of_class = 0; of_class < job.classes.size(); ++of_class)
    is_made |= change_class(job, of_class, drawn, kind);
  return is_made;
}

/// Some instructions of a program, to be tried one after another: in half of the cases sorted by
/// name, so that rare ones have their turn.
std::vector<std::size_t> turns(const Program& program, Draws& random) {
  std::vector<std::size_t> order(program.instructions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::shuffle(order, random);
  if (chance(random, 0.5)) {
    std::map<std::string_view, std::uint64_t> places;
    for (const Instruction& instruction : program.instructions)
      places.try_emplace(name(instruction), random());
    std::ranges::stable_sort(order, std::less(), [&](std::size_t at) {
      return places.at(name(program.instructions[at]));
    });
  }
  constexpr std::size_t most_turns = 2000;
  order.resize(std::min(order.size(), most_turns));
  return order;
}

/// The programs of all classes in the order in which they are tried, that of training mostly first.
std::vector<std::pair<std::size_t, std::size_t>> programs_by_turn(const Job& job, Draws& random) {
  std::vector<std::pair<std::size_t, std::size_t>> order;
  for (std::size_t of_class = 0; of_class < job.classes.size(); ++of_class)
    for (std::size_t i = 0; i < job.classes[of_class].programs.size(); ++i)
      order.emplace_back(of_class, i);
  std::ranges::shuffle(order, random);
  if (chance(random, 0.6))
    std::ranges::stable_partition(order, [&](const auto& place) {
      return job.classes[place.first].programs[place.second].kind == op::ProgramKind::train;
    });
  return order;
}

std::optional<Mutant> mutant_at(const Job& job, const MutantKind& kind, std::size_t of_class,
                                std::size_t index, std::size_t at, Draws& random) {
  const Program& program = job.classes[of_class].programs[index];
  auto change = kind.draw(program, at, random);
  if (!change) return std::nullopt;
  DrawnChange drawn{of_class, index, landmark_of(program, at),
                    first_slot(program, program.instructions[at]), *std::move(change)};
  drawn.is_bound = kind.is_bound;
  drawn.is_everywhere = kind.is_everywhere;
  drawn.in_all_micros = kind.is_everywhere || (drawn.landmark.micro && chance(random, 0.5));
  // Rules find most of what ranks do differently; what all do alike is harder to see.
  constexpr std::array spreads = {Spread::one_rank, Spread::one_class, Spread::all_alike,
                                  Spread::all_alike};
  Mutant mutant{kind.name, pick_of(spreads, random), drawn.in_all_micros, {}, job};
  if (kind.is_bound && mutant.spread == Spread::one_class) mutant.spread = Spread::one_rank;
  if (kind.is_everywhere) mutant.spread = Spread::all_alike;
  if (!spread_change(mutant.job, drawn, mutant.spread, random)) return std::nullopt;
  mutant.what =
      format("{}: {} of rank {}: {}: instruction {} ({}){}", kind.name, to_string(mutant.spread),
             ranks_of(job, of_class)[0], op::to_string(program.kind), at,
             short_text(program, program.instructions[at]),
             mutant.in_all_micros ? ", in all micro-batches" : "");
  return mutant;
}

/// The lines of the texts of the classes of a job that another job has not, without what stands
/// after " #".
std::vector<std::string> own_lines(const Job& job, const Job& other) {
  std::vector<std::string> lines;
  for (const Bundle& bundle : job.classes) {
    if (std::ranges::find(other.classes, bundle) != other.classes.end()) continue;
    const std::string text = to_text(bundle);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::string line = text.substr(begin, end - begin);
      lines.push_back(line.substr(0, line.find(" #")));
      begin = end + 1;
    }
  }
  return lines;
}

}  // namespace

std::string_view to_string(Spread spread) {
  constexpr std::array<std::string_view, 3> names = {"on one rank", "on one class", "on all alike"};
  return names[static_cast<std::size_t>(spread)];
}

std::vector<std::string> mutant_kinds() {
  std::vector<std::string> names;
  for (const MutantKind& kind : all_mutant_kinds()) names.push_back(kind.name);
  return names;
}

std::string_view why_same(std::string_view kind) {
  static const std::map<std::string_view, std::string_view> reasons = {
      {"two operands of a row exchanged", "it takes the two alike, as a sum does"},
      {"two outputs of a row exchanged", "nobody reads them"},
      {"another value read", "both hold the same numbers, or nobody reads what is made of it"},
      {"a value read that was made shortly before", "both hold the same numbers"},
      {"another weight, moment or average read", "both hold the same numbers"},
      {"an operand of another row of that name read", "both hold the same numbers"},
      {"a row skipped by who reads its value", "the row changes nothing, as a dropout of rate 0"},
      {"another buffer written", "the content of neither place is needed"},
      {"outputs of two rows of one name exchanged", "both write the same, as zeros at the start"},
      {"a row twice", "it writes the same again"},
      {"a sum begun anew, or not", "it adds to zero"},
      {"two rows exchanged", "neither reads what the other one writes"},
      {"a row moved to a later place", "nobody reads it earlier"},
      {"another row of the table", "it computes the same, where there is one element type"},
      {"zeros in the place of a value", "it is zero, or cancels out, as a maximum of logits"},
      {"a copy, pack or unpack left out", "what it makes lies there from an earlier one"},
      {"a pack or unpack that copies", "the blocks are in the plain order"},
      {"another number in an attribute", "it is multiplied by zero"},
      {"a switch in an attribute turned", "it says how values are kept, where there is one type"},
      {"another number in all rows that have it", "it is multiplied by zero"},
      {"two tensors of state exchanged everywhere", "both begin alike"},
      {"another random stream everywhere", "nothing is drawn"},
      {"another integer in an attribute", "it says nothing here, as what decays without a decay"},
      {"a random stream of its own", "nothing is drawn, as at a dropout of rate 0"},
      {"the random stream of another row", "nothing is drawn"},
      {"a share that begins elsewhere", "nothing is drawn"},
      {"a share of another size", "nothing is drawn"},
      {"samples of another micro-batch", "nothing is drawn"},
      {"samples that begin elsewhere", "nothing is drawn"},
      {"a part that begins elsewhere", "nothing is drawn"},
      {"a collective twice", "it gathers the same again"},
      {"two tensors of a collective exchanged", "all members list them in the new order"},
      {"two collectives exchanged", "no event orders them, and all members do alike"},
      {"tags of two messages exchanged", "both ends do alike"},
      {"two messages exchanged", "no event orders them, and both ends do alike"},
      {"a message of another value", "both hold the same numbers"},
      {"a wait left out", "another wait orders the same"},
      {"a wait for another event", "the other event is recorded later on that stream"},
      {"a record earlier or a wait later", "nothing that has to be ordered stands between"},
      {"an instruction on another stream", "events order it there too"},
      {"two copies by parity, or one", "there is room for two, or none reads the one before"},
      {"addresses of two transient buffers exchanged", "each place is free for the other"},
      {"a buffer that lies where another one does", "the two are never needed at once"},
      {"a buffer of another role", "the role is of something that nobody keeps"},
      {"a buffer that claims other cuts", "nothing follows from the claim"},
      {"a task of another micro-batch", "it names no sample"},
      {"two fields of a row exchanged", "the row takes the two alike, as a vote does"},
      {"another field of a block read", "both hold the same number"},
      {"the decay of another tensor", "there is no decay"},
  };
  const auto found = reasons.find(kind);
  return found == reasons.end() ? std::string_view() : found->second;
}

std::optional<Mutant> make_mutant(const program::Job& job, std::string_view kind,
                                  std::mt19937_64& random) {
  const auto found = std::ranges::find(all_mutant_kinds(), kind, &MutantKind::name);
  require(found != all_mutant_kinds().end(), "there is a kind of mutants of that name");
  for (const auto& [of_class, index] : programs_by_turn(job, random))
    for (const std::size_t at : turns(job.classes[of_class].programs[index], random))
      if (auto mutant = mutant_at(job, *found, of_class, index, at, random)) return mutant;
  return std::nullopt;
}

std::string text_difference(const program::Job& one, const program::Job& other) {
  // Lines that one text has more often than the other; each at its first place.
  constexpr std::size_t most_lines = 24;
  std::map<std::string, std::int64_t> surplus;
  const std::vector<std::string> before = own_lines(one, other), after = own_lines(other, one);
  for (const std::string& line : after) ++surplus[line];
  for (const std::string& line : before) --surplus[line];
  std::string text;
  if (std::ranges::all_of(surplus, [](const auto& line) { return line.second == 0; })) {
    const auto [was, is] = std::ranges::mismatch(before, after);
    if (was == before.end() || is == after.end()) return {};
    return "- " + *was + "\n+ " + *is + "\n(the same lines in another order from there on)\n";
  }
  std::size_t count = 0;
  for (const auto* lines : {&before, &after})
    for (const std::string& line : *lines) {
      std::int64_t& left = surplus[line];
      if (lines == &before ? left >= 0 : left <= 0) continue;
      if (++count > most_lines) return text + "...\n";
      text += (lines == &before ? "- " : "+ ") + line + "\n";
      left += lines == &before ? 1 : -1;
    }
  return text;
}

}  // namespace fourfold::verify
