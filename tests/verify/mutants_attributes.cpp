// Mutants in which an attribute of a row is another one: what is computed, which share of it is
// here, what is random.
#include <algorithm>
#include <type_traits>

#include "verify/mutant_places.h"

namespace fourfold::verify {
namespace {

/// An attribute of one of the types that mutants change. `place` says how it follows from a rank's
/// share; it is empty where it does not.
struct Attribute {
  std::string_view name;
  std::variant<double*, op::Numbers*, bool*, std::int64_t*, RandomStream*, op::SampleWindow*,
               op::TensorWindow*>
      value;
  std::optional<op::Place> place;
};

template <class Row>
void add_attributes(Row& row, std::vector<Attribute>& list) {
  op::for_each_attribute(row, [&]<class T>(std::string_view name, T& value) {
    if constexpr (requires { decltype(Attribute::value)(&value); })
      list.push_back({name, &value, {}});
  });
  const auto set_place = [&](const op::Place& told, const auto& attribute) {
    for (Attribute& each : list)
      if (std::visit([](const void* value) { return value; }, each.value) == &attribute)
        each.place = told;
  };
  if constexpr (requires { Row::places(row, set_place); }) Row::places(row, set_place);
}

/// The attributes of an op; a chain has those of its pieces. The rows are visited here alone, since
/// there are many of them for the compiler.
std::vector<Attribute> attributes_of(op::Op& op) {
  std::vector<Attribute> list;
  const auto add = [&](op::Op& any) {
    op::visit_row(
        [&]<class Row>(Row& row) {
          if constexpr (!std::is_same_v<Row, op::Fused>) add_attributes(row, list);
        },
        any);
  };
  if (auto* chain = op.get_if<op::Fused>())
    op::Fused::for_each_piece(*chain, [&](op::Op& piece, const auto&) { add(piece); });
  else
    add(op);
  return list;
}

/// Calls visit(name, value, place) for each attribute of an op.
template <class Visit>
void for_each_attribute_of(op::Op& op, const Visit& visit) {
  for (const Attribute& attribute : attributes_of(op))
    std::visit([&](auto* value) { visit(attribute.name, *value, attribute.place); },
               attribute.value);
}

/// True if an op still takes as many operands as it has slices, in the same roles, and a chain is
/// still one.
bool fits(const op::Op& changed, const Compute& compute) {
  if (const auto* chain = changed.get_if<op::Fused>())
    if (std::holds_alternative<op::Mistake>(op::Fused::of(chain->pieces()))) return false;
  const op::Operands now = op::operands(changed), then = op::operands(compute.op);
  return std::ranges::equal(now, then, {}, &op::Operand::role, &op::Operand::role);
}

/// Changes one of the attributes that `changes` knows how to change. changes(name, value, place,
/// random) gives the new value as an optional one of its type.
template <class Changes>
std::optional<Change> draw_attribute(const Program& program, std::size_t at, Draws& random,
                                     Changes changes) {
  const auto* what = std::get_if<Compute>(&program.instructions[at].what);
  if (what == nullptr) return std::nullopt;
  const std::uint64_t seed = random();
  // The values depend on the seed and on what stands there, so that all ranks change alike.
  const auto changed = [changes](const Compute& compute, std::size_t wanted, std::uint64_t of) {
    op::Op op = compute.op;
    std::size_t count = 0;
    bool is_changed = false;
    for_each_attribute_of(
        op, [&](std::string_view name, auto& value, const std::optional<op::Place>& place) {
          Draws own(of);
          auto next = changes(name, std::as_const(value), place, own);
          if constexpr (!std::is_same_v<decltype(next), std::nullptr_t>) {
            if (!next || *next == value || count++ != wanted) return;
            value = *next;
            is_changed = true;
          }
        });
    return is_changed && fits(op, compute) ? std::optional(op) : std::nullopt;
  };
  std::vector<std::size_t> numbers;
  constexpr std::size_t most_attributes = 40;
  for (std::size_t i = 0; i < most_attributes; ++i)
    if (changed(*what, i, seed)) numbers.push_back(i);
  if (numbers.empty()) return std::nullopt;
  return [changed, number = pick_of(numbers, random), seed](const Spot& spot) {
    auto* compute = spot.kind<Compute>();
    if (compute == nullptr) return false;
    const auto op = changed(*compute, number, seed);
    if (!op) return false;
    compute->op = *op;
    return true;
  };
}

using Told = op::Place::Told;

struct ChangeDouble {
  template <class T>
  auto operator()(std::string_view, const T& value, const std::optional<op::Place>&,
                  Draws& random) const {
    if constexpr (std::is_same_v<T, double>) {
      const double others[] = {value * 2, value / 2, value + 0.125};
      return std::optional(value == 0 ? 0.25 : others[random() % 3]);
    } else if constexpr (std::is_same_v<T, op::Numbers>) {
      op::Numbers list = value;
      if (!list.empty()) list[random() % list.size()] += 0.125;
      return std::optional(list);
    } else {
      return nullptr;
    }
  }
};

struct ChangeBool {
  template <class T>
  auto operator()(std::string_view name, const T& value, const std::optional<op::Place>&,
                  Draws&) const {
    if constexpr (std::is_same_v<T, bool>)
      return name == "accumulate" ? std::optional<bool>() : std::optional(!value);
    else
      return nullptr;
  }
};

struct ChangeInteger {
  template <class T>
  auto operator()(std::string_view, const T& value, const std::optional<op::Place>& place,
                  Draws& random) const {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      const std::int64_t others[] = {value + 1, value - 1, value * 2};
      return place ? std::optional<std::int64_t>() : std::optional(others[random() % 3]);
    } else {
      return nullptr;
    }
  }
};

struct ChangeStream {
  template <class T>
  auto operator()(std::string_view, const T& value, const std::optional<op::Place>&,
                  Draws& random) const {
    if constexpr (std::is_same_v<T, RandomStream>)
      return std::optional(RandomStream{value.id + 1 + random() % 1000});
    else
      return nullptr;
  }
};

struct ChangeFirst {
  template <class T>
  auto operator()(std::string_view, const T& value, const std::optional<op::Place>& place,
                  Draws& random) const {
    if constexpr (std::is_same_v<T, std::int64_t>)
      return place && place->told == Told::first
                 ? std::optional(value == 0 ? 1 + static_cast<std::int64_t>(random() % 4)
                                            : value - 1)
                 : std::optional<std::int64_t>();
    else
      return nullptr;
  }
};

struct ChangeSize {
  template <class T>
  auto operator()(std::string_view, const T& value, const std::optional<op::Place>& place,
                  Draws& random) const {
    if constexpr (std::is_same_v<T, std::int64_t>)
      return place && place->told != Told::first
                 ? std::optional(value + (random() % 2 == 0 ? 1 : -1))
                 : std::optional<std::int64_t>();
    else
      return nullptr;
  }
};

struct ChangeMicro {
  template <class T>
  auto operator()(std::string_view, const T& value, const std::optional<op::Place>&,
                  Draws& random) const {
    if constexpr (std::is_same_v<T, op::SampleWindow>) {
      op::SampleWindow window = value;
      window.micro =
          window.micro == 0 ? 1 : window.micro - 1 + static_cast<std::int64_t>(2 * (random() % 2));
      return std::optional(window);
    } else {
      return nullptr;
    }
  }
};

struct ChangeSamples {
  template <class T>
  auto operator()(std::string_view, const T& value, const std::optional<op::Place>&,
                  Draws& random) const {
    if constexpr (std::is_same_v<T, op::SampleWindow>) {
      op::SampleWindow window = value;
      if (random() % 2 == 0)
        window.first = window.first == 0 ? 1 : window.first - 1;
      else
        window.samples += 1;
      return std::optional(window);
    } else {
      return nullptr;
    }
  }
};

struct ChangePart {
  template <class T>
  auto operator()(std::string_view, const T& value, const std::optional<op::Place>&,
                  Draws& random) const {
    if constexpr (std::is_same_v<T, op::TensorWindow>) {
      op::TensorWindow part = value;
      if (part.first.rank() > 0) {
        const std::size_t dim = random() % part.first.rank();
        Shape& shape = random() % 3 == 0 ? part.global : part.first;
        shape[dim] = shape[dim] == 0 ? 1 : shape[dim] - 1;
      }
      return std::optional(part);
    } else {
      return nullptr;
    }
  }
};

template <class Changes>
void add_kind(std::vector<MutantKind>& list, std::string name, bool is_bound = false) {
  list.push_back({std::move(name),
                  [](const Program& program, std::size_t at, Draws& random) {
                    return draw_attribute(program, at, random, Changes{});
                  },
                  is_bound});
}

/// The stream that an instruction draws from.
std::optional<RandomStream> stream_of(const Instruction& instruction) {
  std::optional<RandomStream> stream;
  const auto* what = std::get_if<Compute>(&instruction.what);
  if (what == nullptr) return stream;
  op::Op op = what->op;
  for_each_attribute_of(op, [&]<class T>(std::string_view, T& value, const auto&) {
    if constexpr (std::is_same_v<T, RandomStream>)
      if (!stream) stream = value;
  });
  return stream;
}

/// Calls change(value) with every attribute of a program; true if any call has been.
template <class Function>
bool change_all(Program& program, Function&& change) {
  bool is_made = false;
  for (Instruction& instruction : program.instructions)
    if (auto* compute = std::get_if<Compute>(&instruction.what))
      for_each_attribute_of(compute->op, [&](std::string_view, auto& value, const auto&) {
        is_made |= change(value);
      });
  return is_made;
}

/// Two attributes that are streams change places between rows of one name.
std::optional<Change> exchange_streams(const Program& program, std::size_t at, Draws& random) {
  const auto own = stream_of(program.instructions[at]);
  if (!own) return std::nullopt;
  std::vector<RandomStream> others;
  for (const Instruction& instruction : program.instructions)
    if (const auto other = stream_of(instruction);
        other && *other != *own && name(instruction) == name(program.instructions[at]))
      others.push_back(*other);
  if (others.empty()) return std::nullopt;
  return [other = pick_of(others, random)](const Spot& spot) {
    auto* compute = spot.kind<Compute>();
    if (compute == nullptr) return false;
    bool is_set = false;
    for_each_attribute_of(compute->op, [&]<class T>(std::string_view, T& value, const auto&) {
      if constexpr (std::is_same_v<T, RandomStream>)
        if (!is_set) value = other, is_set = true;
    });
    return is_set;
  };
}

/// All rows that draw from a stream draw from another one: a mask is the same in the forward and in
/// the backward pass, and not the right one.
std::optional<Change> change_stream_everywhere(const Program& program, std::size_t at,
                                               Draws& random) {
  const auto own = stream_of(program.instructions[at]);
  if (!own) return std::nullopt;
  return [own = *own, by = 1 + random() % 1000](const Spot& spot) {
    return change_all(spot.program, [&]<class T>(T& value) {
      if constexpr (std::is_same_v<T, RandomStream>) {
        if (value != own) return false;
        value.id += by;
        return true;
      }
      return false;
    });
  };
}

/// A number that is not 0 is another one in all rows that have it, whatever they are.
std::optional<Change> change_number_everywhere(const Program& program, std::size_t at,
                                               Draws& random) {
  const auto* what = std::get_if<Compute>(&program.instructions[at].what);
  if (what == nullptr) return std::nullopt;
  std::vector<double> numbers;
  op::Op op = what->op;
  for_each_attribute_of(op, [&]<class T>(std::string_view, T& value, const auto&) {
    if constexpr (std::is_same_v<T, double>)
      if (value != 0) numbers.push_back(value);
  });
  if (numbers.empty()) return std::nullopt;
  return
      [own = pick_of(numbers, random), factor = random() % 2 == 0 ? 0.5 : 1.5](const Spot& spot) {
        return change_all(spot.program, [&]<class T>(T& value) {
          if constexpr (std::is_same_v<T, double>) {
            if (value != own) return false;
            value *= factor;
            return true;
          }
          return false;
        });
      };
}

}  // namespace

void add_attribute_mutants(std::vector<MutantKind>& list) {
  add_kind<ChangeDouble>(list, "another number in an attribute");
  add_kind<ChangeBool>(list, "a switch in an attribute turned");
  add_kind<ChangeInteger>(list, "another integer in an attribute");
  add_kind<ChangeStream>(list, "a random stream of its own");
  list.push_back({"the random stream of another row", exchange_streams});
  add_kind<ChangeFirst>(list, "a share that begins elsewhere", true);
  add_kind<ChangeSize>(list, "a share of another size");
  add_kind<ChangeMicro>(list, "samples of another micro-batch", true);
  add_kind<ChangeSamples>(list, "samples that begin elsewhere", true);
  add_kind<ChangePart>(list, "a part that begins elsewhere", true);
  list.push_back(everywhere("another random stream everywhere", change_stream_everywhere));
  list.push_back(everywhere("another number in all rows that have it", change_number_everywhere));
}

}  // namespace fourfold::verify
