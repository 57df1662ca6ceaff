#include "numerics/harness.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/random.h"
#include "kernels/cpu/libraries.h"
#include "kernels/cpu/target.h"

namespace fourfold::numerics {
namespace {

constexpr std::size_t guard_bytes = 64;
constexpr std::byte guard{0xA5};

const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

/// Workspace that ends, up to a cache line of guard, before a page that nobody may touch: what goes
/// beyond it ends the test there, before it spoils what others own.
class GuardedWorkspace {
 public:
  explicit GuardedWorkspace(std::int64_t size_bytes)
      : size_(static_cast<std::size_t>(size_bytes)),
        whole_((size_ + guard_bytes - 1) / guard_bytes * guard_bytes),
        pages_((whole_ + page_bytes - 1) / page_bytes * page_bytes),
        memory_(mmap(nullptr, pages_ + page_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    require(memory_ != MAP_FAILED, "the system gives memory to test in");
    require(mprotect(static_cast<std::byte*>(memory_) + pages_, page_bytes, PROT_NONE) == 0,
            "a page is closed");
    std::memset(begin(), static_cast<int>(guard), whole_);
  }
  GuardedWorkspace(const GuardedWorkspace&) = delete;
  GuardedWorkspace& operator=(const GuardedWorkspace&) = delete;
  ~GuardedWorkspace() { munmap(memory_, pages_ + page_bytes); }

  kernels::Workspace bytes() const { return {begin(), size_}; }
  bool guard_intact() const {
    return std::all_of(begin() + size_, begin() + whole_,
                       [](std::byte byte) { return byte == guard; });
  }

 private:
  std::byte* begin() const { return static_cast<std::byte*>(memory_) + pages_ - whole_; }

  std::size_t size_, whole_, pages_;
  void* memory_;
};

/// An operand in memory, in its own type, with a guard after it.
class Buffer {
 public:
  Buffer(const Shape& shape, DType dtype)
      : shape_(shape), dtype_(dtype), memory_(size() + guard_bytes, guard) {}

  kernels::Tensor tensor() { return {memory_.data(), shape_, dtype_}; }
  /// NaN in floats, a large number in integers.
  void poison() { std::memset(memory_.data(), 0xFF, size()); }
  std::vector<std::byte> bytes() const {
    return {memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(size())};
  }
  bool guard_intact() const {
    for (std::size_t i = size(); i < memory_.size(); ++i)
      if (memory_[i] != guard) return false;
    return true;
  }

  void write(const std::vector<double>& values) {
    visit([&]<class T>(T* data) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        if constexpr (std::is_same_v<T, BFloat16>)
          data[i] = BFloat16(static_cast<float>(values[i]));
        else
          data[i] = static_cast<T>(values[i]);
      }
    });
  }
  std::vector<double> read() {
    std::vector<double> values(static_cast<std::size_t>(shape_.elements()));
    visit([&]<class T>(const T* data) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        if constexpr (std::is_same_v<T, BFloat16>)
          values[i] = static_cast<double>(static_cast<float>(data[i]));
        else
          values[i] = static_cast<double>(data[i]);
      }
    });
    return values;
  }

 private:
  std::size_t size() const {
    return static_cast<std::size_t>(shape_.elements() * size_bytes(dtype_));
  }
  template <class Visit>
  void visit(Visit&& function) {
    void* data = memory_.data();
    switch (dtype_) {
      case DType::f32:
        return function(static_cast<float*>(data));
      case DType::f64:
        return function(static_cast<double*>(data));
      case DType::bf16:
        return function(static_cast<BFloat16*>(data));
      case DType::i32:
        return function(static_cast<std::int32_t*>(data));
      case DType::i64:
        return function(static_cast<std::int64_t*>(data));
      case DType::u64:
        return function(static_cast<std::uint64_t*>(data));
      case DType::u8:
        return function(static_cast<std::uint8_t*>(data));
    }
  }

  Shape shape_;
  DType dtype_;
  std::vector<std::byte> memory_;
};

std::int64_t workspace_size(const kernels::Problem& problem, const Backend& backend) {
  if (backend.source != nullptr) return backend.source->workspace_bytes(problem);
  if (backend.implementation == "reference") return 0;
  return kernels::cpu::target(backend.threads)
      .workspace_bytes(backend.implementation, problem.op, problem.shapes, backend.dtype);
}

kernels::Run prepare(const kernels::Problem& problem, const Backend& backend) {
  if (backend.source != nullptr) return backend.source->prepare(problem);
  if (backend.implementation == "reference") return kernels::reference::prepare(problem);
  return kernels::cpu::prepare(backend.implementation, problem);
}

double epsilon(DType dtype) {
  if (dtype == DType::bf16) return 0x1p-7;
  return dtype == DType::f32 ? std::numeric_limits<float>::epsilon()
                             : std::numeric_limits<double>::epsilon();
}

bool is_real(op::Element element) {
  return element == op::Element::compute || element == op::Element::accumulate ||
         element == op::Element::f64;
}

Arrays absolute_run(const Case& sample) {
  const op::Operands operands = op::operands(sample.op);
  Case positive = sample;
  const auto make_positive = [](Array& array) {
    for (double& value : array.data) value = std::abs(value);
  };
  for (std::size_t i = 0; i < positive.reads.size(); ++i)
    if (is_real(operands[i].element)) make_positive(positive.reads[i]);
  for (Array& array : positive.updates) make_positive(array);
  Arrays magnitude = apply(sample.op, exact, positive.reads, positive.updates).values;
  for (Array& array : magnitude) make_positive(array);
  return magnitude;
}

}  // namespace

namespace {

/// Nobody compares a value between pieces.
void forget(Array& values, std::vector<std::byte>& bytes) {
  std::ranges::fill(values.data, 0.0);
  bytes.clear();
}

}  // namespace

Array filled(const Shape& shape, double value) {
  return {shape, std::vector<double>(static_cast<std::size_t>(shape.elements()), value)};
}

Arrays own_size(const Case& /*sample*/, const Arrays& outputs) {
  Arrays magnitude = outputs;
  for (Array& array : magnitude)
    for (double& value : array.data) value = std::abs(value);
  return magnitude;
}

Array scalar(double value) {
  return filled({}, value);
}

Array uniform(const Shape& shape, std::string_view name, double low, double high) {
  Array array = filled(shape, 0);
  const Random random(7, random_stream(name));
  for (std::size_t i = 0; i < array.data.size(); ++i)
    array.data[i] = low + (high - low) * random.uniform(i, 0);
  return array;
}

Array integers(const Shape& shape, std::string_view name, std::int64_t bound, std::int64_t every) {
  Array array = filled(shape, 0);
  const Random random(7, random_stream(name));
  for (std::size_t i = 0; i < array.data.size(); ++i)
    array.data[i] =
        every > 0 && static_cast<std::int64_t>(i) % every == 1
            ? -1
            : static_cast<double>(random.below(static_cast<std::uint64_t>(bound), i, 0));
  return array;
}

std::string to_string(const Backend& backend) {
  return format("{} {} {}t", backend.implementation, fourfold::to_string(backend.dtype),
                backend.threads);
}

Array rounded(const op::Op& op, std::size_t index, DType dtype, const Array& array) {
  Buffer buffer(array.shape, op::element_dtype(op::operands(op)[index].element, dtype));
  buffer.write(array.data);
  return {array.shape, buffer.read()};
}

Result apply(const op::Op& op, const Backend& backend, const Arrays& reads, const Arrays& updates,
             Aliasing aliasing) {
  const op::Operands operands = op::operands(op);
  kernels::Problem problem{op, backend.dtype, {}, backend.threads};
  for (const Array& array : reads) problem.shapes.push_back(array.shape);
  const std::vector<Shape> output_shapes = op::outputs(op, problem.shapes);
  problem.shapes.insert(problem.shapes.end(), output_shapes.begin(), output_shapes.end());
  require(problem.shapes.size() == operands.size(), "the case gives every read operand");

  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < operands.size(); ++i)
    buffers.emplace_back(problem.shapes[i], op::element_dtype(operands[i].element, backend.dtype));
  for (std::size_t i = 0; i < reads.size(); ++i) buffers[i].write(reads[i].data);
  std::size_t update = 0;
  for (std::size_t i = reads.size(); i < operands.size(); ++i)
    operands[i].role == op::Role::update ? buffers[i].write(updates.at(update++).data)
                                         : buffers[i].poison();

  std::vector<std::size_t> place(operands.size());
  std::vector<kernels::Tensor> tensors;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool alias = aliasing == Aliasing::where_allowed && operands[i].may_alias;
    place[i] = alias ? *operands[i].may_alias : i;
    tensors.push_back(buffers[place[i]].tensor());
  }
  GuardedWorkspace workspace(workspace_size(problem, backend));
  const kernels::Run run = prepare(problem, backend);
  run(tensors, workspace.bytes());

  for (std::size_t i = 0; i < operands.size(); ++i)
    EXPECT_TRUE(buffers[i].guard_intact())
        << to_string(backend) << " wrote behind operand " << operands[i].name;
  EXPECT_TRUE(workspace.guard_intact()) << to_string(backend) << " wrote behind its workspace";
  Result result;
  for (std::size_t i = reads.size(); i < operands.size(); ++i) {
    result.values.push_back({problem.shapes[i], buffers[place[i]].read()});
    result.bytes.push_back(buffers[place[i]].bytes());
    if (operands[i].is_between) forget(result.values.back(), result.bytes.back());
  }
  return result;
}

namespace {

/// The right results of a case in one type. `held` has the operands as the type holds them, and
/// `magnitude` is the size that rounding errors are relative to.
struct Reference {
  Case held;
  Arrays expected, magnitude;
};

Reference reference_of(const Case& sample, DType dtype) {
  const op::Operands operands = op::operands(sample.op);
  Reference made{sample, {}, {}};
  Case& held = made.held;
  for (std::size_t i = 0; i < held.reads.size(); ++i)
    held.reads[i] = rounded(sample.op, i, dtype, held.reads[i]);
  std::size_t update = 0;
  for (std::size_t i = held.reads.size(); i < operands.size(); ++i)
    if (operands[i].role == op::Role::update) {
      held.updates[update] = rounded(sample.op, i, dtype, held.updates[update]);
      ++update;
    }
  made.expected = apply(sample.op, exact, held.reads, held.updates).values;
  made.magnitude = sample.magnitude ? sample.magnitude(held, made.expected) : absolute_run(held);
  return made;
}

void expect_near(const Reference& reference, const Backend& backend) {
  const auto& [held, expected, magnitude] = reference;
  const op::Operands operands = op::operands(held.op);
  const Arrays got = apply(held.op, backend, held.reads, held.updates).values;
  const double sum_epsilon = epsilon(accumulation_type(backend.dtype));
  for (std::size_t output = 0; output < got.size(); ++output) {
    const op::Operand& operand = operands[held.reads.size() + output];
    const double own_epsilon =
        is_real(operand.element) ? epsilon(op::element_dtype(operand.element, backend.dtype)) : 0;
    double worst = 0;
    std::size_t where = 0;
    for (std::size_t i = 0; i < got[output].data.size(); ++i) {
      const double sums = is_real(operand.element)
                              ? (operand.element == op::Element::f64 ? own_epsilon : sum_epsilon)
                              : 0;
      const double bound =
          4 * (own_epsilon + sums * std::sqrt(held.reduction)) * magnitude[output].data[i];
      const bool equal = got[output].data[i] == expected[output].data[i];  // infinities too
      const double difference =
          equal ? 0 : std::abs(got[output].data[i] - expected[output].data[i]);
      const double excess = difference <= bound ? (bound > 0 ? difference / bound : 0)
                                                : (bound > 0 ? difference / bound : 1e300);
      if (!(excess <= worst)) worst = excess, where = i;  // NaN counts as worst
      if (std::isnan(excess)) break;
    }
    EXPECT_LE(worst, 1) << held.name << ", " << to_string(backend) << ", " << operand.name << "["
                        << where << "]: got " << got[output].data[where] << ", reference "
                        << expected[output].data[where] << ", ref_abs "
                        << magnitude[output].data[where];
  }
}

}  // namespace

void expect_within_bound(const Case& sample, const std::vector<Backend>& backends) {
  std::map<DType, Reference> references;
  for (const Backend& backend : backends) {
    if (!references.contains(backend.dtype))
      references.emplace(backend.dtype, reference_of(sample, backend.dtype));
    expect_near(references.at(backend.dtype), backend);
  }
}

void expect_within_bound(const Case& sample, const Backend& backend) {
  expect_near(reference_of(sample, backend.dtype), backend);
}

namespace {

/// True where a NaN is told in another way: the update is not applied; the terms of a sum read the
/// logits too; counts are kept as real numbers, which no arithmetic makes NaN; a hash has no NaN.
bool tells_of_nan_elsewhere(const op::Op& op) {
  return op::work_class(op) == op::WorkClass::optimizer || op.is<op::LogitMax>() ||
         op.is<op::DrawTimesByLoss>() || op.is<op::KeepLosses>() || op.is<op::Digest>();
}

bool has_nan(const Result& result) {
  return std::ranges::any_of(result.values, [](const Array& array) {
    return std::ranges::any_of(array.data, [](double value) { return std::isnan(value); });
  });
}

}  // namespace

void expect_no_hidden_nan(const Case& sample, const Backend& backend) {
  if (tells_of_nan_elsewhere(sample.op)) return;
  constexpr std::size_t most_places = 8;
  const op::Operands operands = op::operands(sample.op);
  Case moved = sample;
  const auto run = [&] { return apply(moved.op, backend, moved.reads, moved.updates); };
  const Result whole = run();
  if (has_nan(whole)) return;
  std::size_t update = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool is_read = i < sample.reads.size();
    if (!is_read && operands[i].role != op::Role::update) continue;
    Array& array = is_read ? moved.reads[i] : moved.updates[update++];
    if (!is_real(operands[i].element)) continue;
    const std::size_t step = std::max<std::size_t>(1, array.data.size() / most_places);
    for (std::size_t place = 0; place < array.data.size(); place += step) {
      const double original = std::exchange(array.data[place], std::nan(""));
      if (!has_nan(run())) {
        bool matters = false;
        for (const double other : {-original, original + 0.5, original - 0.5}) {
          array.data[place] = other;
          matters = matters || run().bytes != whole.bytes;
        }
        EXPECT_FALSE(matters) << sample.name << " " << op::name(sample.op) << ", "
                              << to_string(backend) << ": NaN in " << operands[i].name << "["
                              << place << "] shows nowhere";
      }
      array.data[place] = original;
    }
  }
}

Result of_pieces(const Case& sample, const Backend& backend) {
  const op::Operands all = op::operands(sample.op);
  Arrays held = sample.reads;
  held.resize(all.size());
  std::vector<std::vector<std::byte>> bytes(all.size());
  for (std::size_t i = 0, update = 0; i < all.size(); ++i)
    if (all[i].role == op::Role::update) held[i] = sample.updates[update++];
  for (const op::Piece& piece : op::pieces(sample.op)) {
    const op::Operands operands = op::operands(piece.op);
    Arrays reads, updates;
    std::vector<std::size_t> outputs;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const std::size_t place = piece.operands[i];
      if (operands[i].role == op::Role::read) reads.push_back(held[place]);
      if (operands[i].role == op::Role::update) updates.push_back(held[place]);
      if (operands[i].role != op::Role::read) outputs.push_back(place);
    }
    const Result result = apply(piece.op, backend, reads, updates);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      held[outputs[i]] = result.values[i];
      bytes[outputs[i]] = result.bytes[i];
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].is_between) forget(held[i], bytes[i]);
  const auto first = static_cast<std::ptrdiff_t>(sample.reads.size());
  return {{held.begin() + first, held.end()}, {bytes.begin() + first, bytes.end()}};
}

double difference_from_pieces(const Case& sample, const Backend& backend) {
  const Arrays whole = apply(sample.op, backend, sample.reads, sample.updates).values,
               pieces = of_pieces(sample, backend).values,
               magnitude = sample.magnitude(sample, pieces);
  constexpr double two_steps = 2 * 0x1p-7;
  double largest = 0;
  for (std::size_t output = 0; output < whole.size(); ++output)
    for (std::size_t i = 0; i < whole[output].data.size(); ++i)
      largest = std::max(largest, std::abs(whole[output].data[i] - pieces[output].data[i]) /
                                      (two_steps * magnitude[output].data[i]));
  return largest;
}

void expect_gradient(const op::Op& op, Arrays reads, std::size_t index, const Arrays& weights,
                     const Array& gradient) {
  const auto run = [&](const Arrays& held) { return apply(op, exact, held).values; };
  expect_gradient(op::name(op), run, std::move(reads), index, weights, gradient);
}

void expect_gradient(std::string_view name, const std::function<Arrays(const Arrays&)>& function,
                     Arrays reads, std::size_t index, const Arrays& weights,
                     const Array& gradient) {
  const auto loss = [&] {
    const Arrays outputs = function(reads);
    double sum = 0;
    for (std::size_t output = 0; output < weights.size(); ++output)
      for (std::size_t i = 0; i < weights[output].data.size(); ++i)
        sum += weights[output].data[i] * outputs[output].data[i];
    return sum;
  };
  constexpr double step = 1e-5;  // error of the difference: step^2 + eps / step, each about 1e-10
  double largest = 0, worst = 0;
  ASSERT_EQ(gradient.shape, reads[index].shape);
  for (std::size_t i = 0; i < gradient.data.size(); ++i) {
    double& x = reads[index].data[i];
    const double original = x;
    x = original + step;
    const double above = loss();
    x = original - step;
    const double below = loss();
    x = original;
    const double difference = std::abs((above - below) / (2 * step) - gradient.data[i]);
    worst = difference <= worst ? worst : difference;
    largest = std::max(largest, std::abs(gradient.data[i]));
  }
  EXPECT_GT(largest, 0) << "the gradient is not all zero";
  EXPECT_LE(worst, 1e-6 * largest) << name << ", operand " << index;
}

namespace {

/// The case with what its row can keep `wide` kept so; nothing where there is none, or it is so
/// already.
std::optional<Case> wide_form(Case sample) {
  const bool was_narrow = op::visit_row(
      [](auto& row) {
        if constexpr (requires { row.wide; }) return !std::exchange(row.wide, true);
        return false;
      },
      sample.op);
  if (!was_narrow) return std::nullopt;
  sample.name += " wide";
  return sample;
}

}  // namespace

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& family : {contract_cases(),   embedding_cases(),
                             dropout_cases(),    norm_cases(),
                             norm_parts_cases(), uncentred_norm_cases(),
                             heads_cases(),      elementwise_cases(),
                             attention_cases(),  grouped_attention_cases(),
                             loss_cases(),       loss_parts_cases(),
                             update_cases(),     state_cases(),
                             fused_cases(),      fused_product_cases(),
                             norm_chain_cases(), convolution_cases(),
                             picture_cases(),    example_cases()})
    for (const Case& sample : family) {
      all.push_back(sample);
      if (auto wide = wide_form(sample)) all.push_back(std::move(*wide));
    }
  return all;
}

bool is_bounded_in_bf16(const op::Op& op) {
  const auto* chain = op.get_if<op::Fused>();
  if (chain == nullptr) return true;
  return op::product_of(op) && chain->chain_name() != "contract+gelu_gradient&bias_gradient";
}

std::vector<Backend> backends_of(const op::Op& op) {
  std::vector<Backend> backends = {{"reference", DType::f32, 1}};
  if (is_bounded_in_bf16(op)) backends.push_back({"reference", DType::bf16, 1});
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const int threads : {1, 2, 3})
      if (dtype != DType::bf16 || is_bounded_in_bf16(op))
        backends.push_back({"vector", dtype, threads});
  if (op.is<op::Contract>()) {
    for (const int threads : {1, 2}) {
      for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
        for (const std::string& library : kernels::cpu::contract_libraries(dtype))
          backends.push_back({library, dtype, threads});
    }
  } else if (op::work_class(op) == op::WorkClass::product && !op.is<op::Fused>()) {
    for (const int threads : {1, 2}) {
      backends.push_back({"onednn", DType::f32, threads});
      backends.push_back({"onednn", DType::bf16, threads});
    }
  } else if (kernels::cpu::has_bf16_products() &&
             (op.is<op::Attention>() || op.is<op::AttentionGradient>())) {
    for (const int threads : {1, 2}) backends.push_back({"onednn", DType::bf16, threads});
  }
  return backends;
}

}  // namespace fourfold::numerics
