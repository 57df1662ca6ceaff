// The file that `bench kernels` writes and run.kernel_table reads.
#include "machine/kernel_table.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/chains.h"

namespace fourfold::machine {
namespace {

std::vector<std::string> implementations(const std::string&, DType dtype) {
  if (dtype == DType::f64) return {"openblas", "vector"};
  return {"openblas", "onednn", "vector"};
}

KernelTable small_table() {
  return {"a cpu; avx2",
          {{DType::f32, 2, "nn", 768, 384, 128, "onednn", 151.2},
           {DType::f32, 2, "nn", 64, 64, 64, "vector", 12},
           {DType::f32, 1, "nn", 64, 64, 64, "openblas", 12},
           {DType::f64, 2, "tn", 64, 128, 64, "openblas", 40}}};
}

KernelTable read(const std::string& text) {
  return read_kernel_table(text, "t.yaml", {.cpu = implementations});
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    return error.what();
  }
  return "";
}

/// The problem of a table whose text has `from` replaced.
std::string error_with(const std::string& from, const std::string& to) {
  std::string text = to_text(small_table());
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return error_of(text.replace(at, from.size(), to));
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nhas no: " << part;
}

TEST(KernelTable, text_reads_back_sorted_from_small_to_large) {
  const KernelTable table = read(to_text(small_table()));
  EXPECT_EQ(table.cpu, "a cpu; avx2");
  const auto& lines = small_table().lines;
  EXPECT_EQ(table.lines, (std::vector{lines[2], lines[1], lines[0], lines[3]}));
}

TEST(KernelTable, the_smallest_line_that_holds_a_product_decides) {
  Target target;
  target.choices = choices_of(small_table(), "t.yaml", "a cpu; avx2", 2);
  Choice rest;
  rest.op = "*";
  rest.implementation = "built in";
  target.choices.push_back(rest);
  const auto chosen = [&](std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
    const Shape shapes[] = {{m, k}, {k, n}, {m, n}};
    return choose(target, op::Contract{}, shapes, dtype);
  };
  EXPECT_EQ(chosen(64, 64, 64, DType::f32), "vector");
  EXPECT_EQ(chosen(65, 64, 64, DType::f32), "onednn");
  EXPECT_EQ(chosen(768, 384, 128, DType::f32), "onednn");
  EXPECT_EQ(chosen(769, 384, 128, DType::f32), "built in");
  EXPECT_EQ(chosen(64, 64, 64, DType::f64), "built in");
}

TEST(KernelTable, a_foreign_cpu_or_number_of_threads_is_refused) {
  const auto message = [](const std::string& cpu, int threads) {
    try {
      choices_of(small_table(), "t.yaml", cpu, threads);
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_config);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message("a cpu; avx2", 1), "");
  expect_part(message("another; avx2", 2),
              "t.yaml was measured on 'a cpu; avx2', this is 'another");
  expect_part(message("a cpu; avx2", 3), "t.yaml has no line for 3 threads");
}

TEST(KernelTable, every_wrong_text_is_told_with_its_place) {
  expect_part(error_with("version: 1", "version: 2"), "t.yaml:3:10: error: version is '2'");
  expect_part(error_with("cpu:", "cpus:"), "'cpu' is missing");
  expect_part(error_with("cpu:", "cpus:"), "unknown 'cpus'");
  expect_part(error_with("threads: 1", "threads: 0"), "expected a whole number from 1");
  expect_part(error_with("layout: nn", "layout: no"), "layout is 'no', expected nn, nt, tn, tt");
  expect_part(error_with("by: vector", "by: mkl"), "expected openblas, onednn, vector");
  expect_part(
      error_with("tn, m: 64, n: 128, k: 64, by: openblas", "tn, m: 64, n: 128, k: 64, by: onednn"),
      "by is 'onednn', expected openblas, vector");
  expect_part(error_with("gflops: 12", "gflops: fast"), "gflops is 'fast'");
  expect_part(error_of("matmul: 3\n"), "matmul is '3', expected a list");
  expect_part(error_of(""), "the table is nothing, expected a map");
  expect_part(error_of("version: 1\ncpu: x\nmatmul: [7]\n"), "this line is '7', expected a map");
}

TEST(KernelTable, a_convolution_has_a_line_for_its_shapes) {
  KernelTable table{"a cpu; avx2", {}};
  const std::vector<Shape> shapes = {{8, 32, 32, 64}, {64, 3, 3, 64}, {8, 32, 32, 64}};
  const op::Op row = op::Convolution{};
  table.lines = {
      {DType::f32, 2, "", 0, 0, 0, "onednn", 333, std::string(op::name(row)), {}, shapes}};
  const std::string text = to_text(table);
  expect_part(text, "shapes: 8x32x32x64 64x3x3x64 8x32x32x64, by: onednn");
  EXPECT_EQ(read(text), table);

  Target target;
  target.choices = choices_of(table, "t.yaml", "a cpu; avx2", 2);
  Choice rest;
  rest.op = "*";
  rest.implementation = "built in";
  target.choices.push_back(rest);
  EXPECT_EQ(choose(target, row, shapes, DType::f32), "onednn");
  EXPECT_EQ(choose(target, row, shapes, DType::f64), "built in");
  std::vector<Shape> other = shapes;
  other[0][1] = 16;
  EXPECT_EQ(choose(target, row, other, DType::f32), "built in");

  for (const std::string wrong : {"8x32x0x64", "8x32x32xc", "8.32", "8x"}) {
    std::string changed = text;
    changed.replace(changed.find("8x32x32x64 "), 11, wrong + " ");
    expect_part(error_of(changed), "expected the shapes of all operands, as 8x32x32x64");
  }
}

KernelTable device_table() {
  KernelTable table;
  table.device = "NVIDIA H200; cuBLASLt 130002";
  table.lines = {
      {DType::bf16, 1, "nn", 8192, 768, 3072, "cublaslt/2", 512000},
      {DType::bf16, 1, "nn", 8192, 3072, 768, "cublaslt", 401000, "contract+add_bias&gelu", 4096},
      {DType::bf16, 1, "", 0, 0, 0, "cudnn", 300000, "attention"}};
  return table;
}

std::vector<std::string> device_implementations(const std::string& op, DType) {
  if (op.starts_with("attention")) return {"own", "cudnn"};
  return {"own", "cublaslt", "cublaslt/2"};
}

const KnownImplementations known{implementations, device_implementations};

TEST(DeviceKernelTable, reads_back_with_rows_that_a_product_is_a_part_of) {
  const KernelTable back = read_kernel_table(to_text(device_table()), "t.yaml", known);
  EXPECT_EQ(back.device, device_table().device);
  EXPECT_EQ(back.cpu, "");
  // Attention has no sizes: it goes first.
  const auto lines = device_table().lines;
  EXPECT_EQ(back.lines, (std::vector{lines[2], lines[0], lines[1]}));
}

TEST(DeviceKernelTable, a_line_decides_for_its_row_alone) {
  Target target;
  target.choices = device_choices_of(device_table(), "t.yaml", device_table().device);
  target.choices.push_back({.op = "*", .dtype = std::nullopt, .implementation = "own"});
  const std::vector<Shape> up = {{8192, 768}, {768, 3072}, {3072}, {8192, 3072}, {8192, 3072}},
                           down = {{8192, 3072}, {3072, 768}, {8192, 768}};
  EXPECT_EQ(choose(target, op::product_bias_gelu(), up, DType::bf16), "cublaslt");
  EXPECT_EQ(choose(target, op::Contract{}, down, DType::bf16), "cublaslt/2");
  EXPECT_EQ(choose(target, op::product_bias_gelu(), up, DType::f32), "own");
  const std::vector<Shape> attention = {{2, 5, 3, 4, 64}, {2, 5, 4, 64}, {2, 4, 5}};
  EXPECT_EQ(choose(target, op::Attention{}, attention, DType::bf16), "cudnn");
  target.fits = [](const std::string& name, const op::Op&, op::Shapes, DType) {
    return name != "cudnn";
  };
  EXPECT_EQ(choose(target, op::Attention{}, attention, DType::bf16), "own") << "where it has none";
}

TEST(DeviceKernelTable, scratch_is_that_of_just_the_product_that_was_measured) {
  const auto choices = device_choices_of(device_table(), "t.yaml", device_table().device);
  const auto scratch = [&](std::int64_t m, const char* by) {
    const Shape shapes[] = {{m, 768}, {768, 3072}, {3072}, {m, 3072}, {m, 3072}};
    return measured_workspace(choices, by, op::product_bias_gelu(), shapes, DType::bf16);
  };
  EXPECT_EQ(scratch(8192, "cublaslt"), 4096);
  EXPECT_EQ(scratch(4096, "cublaslt"), std::nullopt);
  EXPECT_EQ(scratch(8192, "cublaslt/2"), std::nullopt);
  const Shape down[] = {{8192, 3072}, {3072, 768}, {8192, 768}};
  EXPECT_EQ(measured_workspace(choices, "cublaslt/2", op::Contract{}, down, DType::bf16),
            std::nullopt)
      << "a line without";
}

TEST(DeviceKernelTable, a_convolution_has_a_line_with_its_scratch_also_with_the_bias_after_it) {
  const op::Op row = op::chain_of({{op::Convolution{1, 1}, {0, 1, 3}}, {op::AddBias{}, {3, 2, 3}}});
  const std::vector<Shape> shapes = {{8, 32, 32, 64}, {64, 3, 3, 64}, {64}, {8, 32, 32, 64}};
  KernelTable table = device_table();
  table.lines = {
      {DType::bf16, 1, "", 0, 0, 0, "cublaslt/2", 333, std::string(op::name(row)), 512, shapes}};
  const std::string text = to_text(table);
  expect_part(text,
              "op: convolution+add_bias, dtype: bf16, threads: 1, shapes: 8x32x32x64 "
              "64x3x3x64 64 8x32x32x64, by: cublaslt/2, gflops: 333, workspace: 512");
  EXPECT_EQ(read_kernel_table(text, "t.yaml", known), table);
  const auto choices = device_choices_of(table, "t.yaml", table.device);
  EXPECT_EQ(measured_workspace(choices, "cublaslt/2", row, shapes, DType::bf16), 512);
  EXPECT_EQ(measured_workspace(choices, "cublaslt", row, shapes, DType::bf16), std::nullopt);
  std::vector<Shape> other = shapes;
  other[0][0] = other[3][0] = 4;
  EXPECT_EQ(measured_workspace(choices, "cublaslt/2", row, other, DType::bf16), std::nullopt);
}

TEST(DeviceKernelTable, one_for_the_other_kind_is_told_as_that_and_not_by_its_names) {
  // In a program without CUDA the names of a GPU's kernels are not known.
  const KernelTable of_device =
      read_kernel_table(to_text(device_table()), "t.yaml", {.cpu = implementations});
  EXPECT_THROW(choices_of(of_device, "t.yaml", "a cpu; avx2", 1), UserError);
  const KernelTable of_cpu =
      read_kernel_table(to_text(small_table()), "t.yaml", {.device = device_implementations});
  EXPECT_THROW(device_choices_of(of_cpu, "t.yaml", std::nullopt), UserError);
  EXPECT_EQ(device_choices_of(device_table(), "t.yaml", std::nullopt).size(), 3U)
      << "planned where no GPU is";
}

TEST(DeviceKernelTable, wrong_lines_are_told_with_what_their_row_may_have) {
  const auto message = [](const std::string& from, const std::string& to) {
    std::string text = to_text(device_table());
    text.replace(text.find(from), from.size(), to);
    try {
      read_kernel_table(text, "t.yaml", known);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  expect_part(message("by: cudnn", "by: cublaslt"), "by is 'cublaslt', expected own, cudnn");
  expect_part(message("by: cublaslt/2", "by: cudnn"), "expected own, cublaslt, cublaslt/2");
  expect_part(message("op: attention, ", "op: attention, m: 3, "), "unknown 'm'");
  expect_part(message("workspace: 4096", "workspace: -1"), "expected a whole number from 0");
}

TEST(DeviceKernelTable, one_of_another_device_or_of_a_cpu_is_refused) {
  EXPECT_THROW(device_choices_of(device_table(), "t.yaml", "NVIDIA A100; cuBLASLt 130002"),
               UserError);
  EXPECT_THROW(device_choices_of(small_table(), "t.yaml", device_table().device), UserError);
  EXPECT_THROW(choices_of(device_table(), "t.yaml", "a cpu; avx2", 1), UserError);
  std::string text = to_text(device_table());
  const std::string chain = "contract+add_bias&gelu";
  for (const char* other :
       {"gelu", "add_bias&gelu", "contract+add", "contract+", "contract&nothing"}) {
    std::string wrong = text;
    wrong.replace(wrong.find(chain), chain.size(), other);
    const bool is_known = std::string(other) == "contract+add";
    if (is_known)
      EXPECT_NO_THROW(read_kernel_table(wrong, "t.yaml", known)) << other;
    else
      EXPECT_THROW(read_kernel_table(wrong, "t.yaml", known), UserError) << other;
  }
}

}  // namespace
}  // namespace fourfold::machine
