// A measured table of which implementation computes which product: how `bench kernels` writes it
// and `run.kernel_table` reads it. Not the measuring (measure/), nor the choice (target.h).
//
//   version: 1
//   cpu: "AMD EPYC 7763 64-Core Processor; avx2 fma"
//   matmul:
//     - {dtype: f32, threads: 2, layout: nn, m: 768, n: 384, k: 128, by: onednn, gflops: 151.2}
//
// A line decides for products up to its m, n and k; of several the smallest. Where none fits, the
// built-in table decides. A convolution has a line for operands of just these shapes:
//     {op: convolution, dtype: f32, threads: 2, shapes: 8x32x32x64 64x3x3x64 8x32x32x64, by:
//     winograd, gflops: 333}
// The table of a GPU has `device` in place of `cpu`, and also lines for
//   - chains of rows that begin with a product, with the scratch that it was measured with:
//     {op: contract+add_bias&gelu, dtype: bf16, ..., by: cublaslt/2, gflops: 512, workspace:
//     4194304}
//   - convolutions as above, also with the bias after them, with their scratch:
//     {op: convolution+add_bias, dtype: bf16, threads: 1, shapes: 8x32x32x64 64x3x3x64 64
//     8x32x32x64, by: cudnn/1, gflops: 420000, workspace: 1024}
//   - attention of any shape that the implementation has:
//     {op: attention, dtype: bf16, threads: 1, by: cudnn, gflops: 402000}
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "machine/target.h"

namespace fourfold::machine {

/// The row that is a product of matrices and nothing else.
const std::string& product_row();

/// True for a row that lines of a CPU's table may be about: a product, or a convolution.
bool is_row_of_cpu(const op::Op& row);

struct KernelTable {
  static constexpr std::int64_t version = 1;

  struct Line {
    DType dtype = DType::f32;
    std::int64_t threads = 1;
    std::string layout;  // with m, n and k: of a product
    std::int64_t m = 0, n = 0, k = 0;
    std::string implementation;
    double gflops = 0;  // measured, for people
    std::string op = product_row();
    std::optional<std::int64_t> workspace_bytes = {};
    std::vector<Shape> shapes = {};  // of all operands, in a line that is no product's; empty: any
    bool operator==(const Line&) const = default;
  };
  std::string cpu;  // what it was measured on: model and instruction sets of the kernels
  std::vector<Line> lines;
  std::string device = {};  // or the GPU and the version of its library; one of both is empty
  bool operator==(const KernelTable&) const = default;
};

/// Lines sorted from small products to large ones; reads back to an equal table.
std::string to_text(KernelTable table);

/// Names of the implementations of a row in a type.
using Implementations = std::function<std::vector<std::string>(const std::string& op, DType)>;
/// The names that both kinds of tables may have; where there is none, names are taken as they are,
/// for a table that is not for this run anyway.
struct KnownImplementations {
  Implementations cpu = {}, device = {};
};

/// Errors: one UserError(bad_config) with every problem of the text, each with its place.
KernelTable read_kernel_table(const std::string& text, const std::string& name,
                              const KnownImplementations& known);

/// What the table of a GPU says for a run on `device`; none: on a GPU that does not answer here, of
/// which nothing is known. Errors: UserError(bad_config) where it was measured elsewhere.
std::vector<Choice> device_choices_of(const KernelTable& table, const std::string& name,
                                      const std::optional<std::string>& device);

/// What the table says for a run with so many threads on `cpu`. Errors: UserError(bad_config) where
/// it was measured on another CPU or has no line for that number of threads.
std::vector<Choice> choices_of(const KernelTable& table, const std::string& name,
                               const std::string& cpu, int threads);

}  // namespace fourfold::machine
