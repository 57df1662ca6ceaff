#include "program/instruction.h"

#include "base/error.h"

namespace fourfold::program {
namespace {

struct Collect {
  std::vector<Access>& list;
  template <class T>
  void field(std::string_view, const T&) {}
  void option(std::string_view, std::int64_t) {}
  template <class T>
  void read(std::string_view, const T& slices) {
    add(slices, op::Role::read);
  }
  template <class T>
  void write(std::string_view, const T& slices) {
    add(slices, op::Role::write);
  }
  template <class T>
  void update(std::string_view, const T& slices) {
    add(slices, op::Role::update);
  }

  void add(const Slice& slice, op::Role role) { list.push_back({slice, role}); }
  void add(const Slices& slices, op::Role role) {
    for (const Slice& slice : slices) add(slice, role);
  }
};

}  // namespace

What::What() = default;
What::What(const What& other) = default;
What::What(What&& other) noexcept = default;
What& What::operator=(const What& other) = default;
What& What::operator=(What&& other) noexcept = default;
What::~What() = default;
bool What::operator==(const What& other) const {
  return static_cast<const AnyKind&>(*this) == static_cast<const AnyKind&>(other);
}

std::string_view name(const Instruction& instruction) {
  return std::visit(
      []<class Kind>(const Kind& what) -> std::string_view {
        if constexpr (std::is_same_v<Kind, Compute>)
          return op::name(what.op);
        else if constexpr (AnyCollective<Kind>)
          return to_string(what.kind);
        else
          return Kind::name;
      },
      instruction.what);
}

std::vector<Access> accesses(const Instruction& instruction) {
  std::vector<Access> list;
  std::visit(
      [&]<class Kind>(const Kind& what) {
        if constexpr (std::is_same_v<Kind, Compute>) {
          const op::Operands operands = op::operands(what.op);
          require(operands.size() == what.slices.size(),
                  "a compute instruction has a slice for every operand of its op");
          list.reserve(operands.size() + 1);
          for (std::size_t i = 0; i < operands.size(); ++i)
            list.push_back({what.slices[i], operands[i].role});
          if (what.workspace) list.push_back({*what.workspace, op::Role::write});
        } else {
          Collect collect{list};
          Kind::fields(what, collect);
        }
      },
      instruction.what);
  return list;
}

}  // namespace fourfold::program
