#include "compile/fuse_products.h"

#include <optional>
#include <utility>
#include <vector>

#include "compile/neighbours.h"

namespace fourfold::compile {
namespace {

using program::Program;

/// Joins around what follows a product.
class Fuser : private Neighbours {
 public:
  using Neighbours::Neighbours;

  void run() {
    for_each_row([&](const auto& row, std::size_t index) { fuse(row, index); });
  }

 private:
  template <class Row>
  void fuse(const Row&, std::size_t) {}

  void fuse(op::AddBias, std::size_t index) { join_bias<op::ContractBias>(index); }
  void fuse(op::BiasGelu, std::size_t index) { join_bias<op::ContractBiasGelu>(index); }

  /// An instruction that reads the product and a bias first.
  template <class Row>
  void join_bias(std::size_t index) {
    const std::vector<Slice>& own = compute(index)->slices;
    const auto product = product_of<Row>(own[0], index);
    if (!product || !is_of_columns(own[1], *product)) return;
    std::vector<Slice> slices = factors(*product);
    slices.insert(slices.end(), own.begin() + 1, own.end());
    join(row_of<Row>(*product), std::move(slices), {*product, index}, index);
  }

  void fuse(op::GeluGradient, std::size_t index) {
    using Row = op::ContractGeluGradient;
    const std::vector<Slice>& own = compute(index)->slices;
    const auto product = product_of<Row>(own[1], index);
    if (!product) return;
    auto row = row_of<Row>(*product);
    std::vector<Slice> slices = factors(*product);
    slices.insert(slices.end(), {own[0], own[2]});
    if (const auto bias = first_reader<op::BiasGradient>(own[2], index);
        bias && is_of_columns(compute(*bias)->slices[1], *product)) {
      const auto& gradient = std::get<op::BiasGradient>(compute(*bias)->op);
      Row both = row;
      both.summed_dims = gradient.summed_dims;
      both.adds_bias_grad = gradient.accumulate;
      std::vector<Slice> more = slices;
      more.push_back(compute(*bias)->slices[1]);
      if (join(both, std::move(more), {*product, index, *bias}, index)) return;
    }
    join(row, std::move(slices), {*product, index}, index);
  }

  /// The product whose value the slice is, where only `reader` reads it and the target has such a
  /// row.
  template <class Row>
  std::optional<std::size_t> product_of(const Slice& slice, std::size_t reader) const {
    if (!wants<Row>()) return std::nullopt;
    const auto product = sole_writer<op::Contract>(slice, reader);
    if (!product) return std::nullopt;
    const auto& contract = std::get<op::Contract>(compute(*product)->op);
    if (contract.accumulate || contract.batch > 0) return std::nullopt;
    return product;
  }

  /// True if the slice has the dims of the columns of the product's second factor.
  bool is_of_columns(const Slice& slice, std::size_t product) const {
    const auto& contract = std::get<op::Contract>(compute(product)->op);
    const Shape b = shape(compute(product)->slices[1]);
    const auto rows = static_cast<std::size_t>(contract.b_rows);
    const std::size_t first = contract.transpose_b ? 0 : rows,
                      last = contract.transpose_b ? rows : b.rank();
    Shape columns;
    for (std::size_t dim = first; dim < last; ++dim) columns.push_back(b[dim]);
    return shape(slice) == columns;
  }

  std::vector<Slice> factors(std::size_t product) const {
    const std::vector<Slice>& all = compute(product)->slices;
    return {all[0], all[1]};
  }

  template <class Row>
  Row row_of(std::size_t product) const {
    const auto& contract = std::get<op::Contract>(compute(product)->op);
    Row row;
    row.a_rows = contract.a_rows, row.b_rows = contract.b_rows;
    row.transpose_a = contract.transpose_a, row.transpose_b = contract.transpose_b;
    return row;
  }
};

}  // namespace

Program fuse_products(Program program, const machine::Target& target) {
  const bool has_any = machine::fuses(target, op::ContractBias::name) ||
                       machine::fuses(target, op::ContractBiasGelu::name) ||
                       machine::fuses(target, op::ContractGeluGradient::name);
  if (has_any) Fuser(program, target).run();
  return program;
}

}  // namespace fourfold::compile
