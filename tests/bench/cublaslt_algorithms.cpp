// What cuBLASLt could give for the products of GPT-2 124M (16 x 1024 tokens) and 1.5B (8 x 1024) in
// bf16: its first proposal, the best of all that it proposes (with a workspace and without one),
// and the best of their neighbours, other tiles, clusters, stages and splits that it accepts. For
// whoever asks whether proposals are enough; nothing else uses it.
//
//   cublaslt_algorithms [SECONDS]
//
// times neighbours for so many seconds a product (default: 1). A time is that of a call in a
// captured graph of ten, on operands that no cache holds, with whatever the library clears first.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace {

using Algorithm = cublasLtMatmulAlgo_t;

void check(int status, const char* call) {
  if (status == 0) return;
  std::printf("%s failed with status %d\n", call, status);
  std::exit(1);
}

/// Row-major out (m, n) = a (m, k) b (k, n), each as it lies or transposed, `count` times a step.
struct Product {
  const char* name;
  std::int64_t m, n, k;
  bool transposes_a, transposes_b, is_wide;  // wide: out in f32, a weight's gradient
  int count;
};

std::vector<Product> products_of(std::int64_t tokens, std::int64_t width, int layers) {
  constexpr std::int64_t vocabulary = 50304;
  std::vector<Product> list;
  const auto add_layer = [&](const char* name, std::int64_t in, std::int64_t out) {
    list.push_back({name, tokens, out, in, false, false, false, layers});
    list.push_back({"  of x", tokens, in, out, false, true, false, layers});
    list.push_back({"  of weight", in, out, tokens, true, false, true, layers});
  };
  add_layer("qkv", width, 3 * width);
  add_layer("attention out", width, width);
  add_layer("mlp up", width, 4 * width);
  add_layer("mlp down", 4 * width, width);
  list.push_back({"head", tokens, vocabulary, width, false, true, false, 1});
  list.push_back({"  of x", tokens, width, vocabulary, false, false, false, 1});
  list.push_back({"  of weight", vocabulary, width, tokens, true, false, true, 1});
  return list;
}

constexpr std::size_t workspace_bytes = std::size_t{32} << 20, pool_bytes = std::size_t{8} << 30,
                      beyond_caches = std::size_t{200} << 20;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The library, a stream, and memory with numbers that are about normal: zeros take less power.
struct Device {
  cublasLtHandle_t library = nullptr;
  cudaStream_t stream = nullptr;
  std::byte *pool = nullptr, *workspace = nullptr;

  Device() {
    check(cublasLtCreate(&library), "cublasLtCreate");
    check(cudaStreamCreate(&stream), "cudaStreamCreate");
    check(cudaMalloc(reinterpret_cast<void**>(&pool), pool_bytes), "cudaMalloc");
    check(cudaMalloc(reinterpret_cast<void**>(&workspace), workspace_bytes), "cudaMalloc");
    std::vector<std::uint16_t> numbers(std::size_t{1} << 24);
    std::mt19937 engine(1);
    std::normal_distribution<float> normal;
    for (std::uint16_t& number : numbers) {
      const float value = normal(engine);
      std::uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      number = static_cast<std::uint16_t>(bits >> 16);
    }
    const std::size_t bytes = numbers.size() * sizeof(numbers[0]);
    for (std::size_t at = 0; at < pool_bytes; at += bytes)
      check(cudaMemcpy(pool + at, numbers.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
};

/// A product as the library sees it: column-major, so b goes first.
class Problem {
 public:
  Problem(Device& device, const Product& product) : device_(device), product_(product) {
    check(cublasLtMatmulDescCreate(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, bool transposes) {
      const cublasOperation_t operation = transposes ? CUBLAS_OP_T : CUBLAS_OP_N;
      check(cublasLtMatmulDescSetAttribute(description_, attribute, &operation, sizeof(operation)),
            "cublasLtMatmulDescSetAttribute");
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, product.transposes_b);
    set(CUBLASLT_MATMUL_DESC_TRANSB, product.transposes_a);
    a_ = matrix(CUDA_R_16BF, product.transposes_a ? product.k : product.m,
                product.transposes_a ? product.m : product.k);
    b_ = matrix(CUDA_R_16BF, product.transposes_b ? product.n : product.k,
                product.transposes_b ? product.k : product.n);
    out_ = matrix(type_of_out(), product.m, product.n);
    a_bytes_ = aligned(2 * product.m * product.k);
    b_bytes_ = aligned(2 * product.k * product.n);
    out_bytes_ = aligned((product.is_wide ? 4 : 2) * product.m * product.n);
  }

  /// What the library proposes with a workspace of so many bytes, best first.
  std::vector<Algorithm> proposals(std::uint64_t bytes) const {
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &bytes, sizeof(bytes));
    const std::uint32_t reductions =
        CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                         &reductions, sizeof(reductions));
    constexpr int most = 64;
    cublasLtMatmulHeuristicResult_t found[most];
    int count = 0;
    if (cublasLtMatmulAlgoGetHeuristic(device_.library, description_, b_, a_, out_, out_,
                                       preference, most, found, &count) != CUBLAS_STATUS_SUCCESS)
      count = 0;
    cublasLtMatmulPreferenceDestroy(preference);
    std::vector<Algorithm> list;
    for (int i = 0; i < count; ++i)
      if (found[i].state == CUBLAS_STATUS_SUCCESS) list.push_back(found[i].algo);
    return list;
  }

  /// Those that differ from a proposal in tile and cluster, in stages and option, or in the split.
  std::vector<Algorithm> neighbours(const std::vector<Algorithm>& proposals) const {
    std::set<std::string> seen;
    std::vector<Algorithm> list;
    const auto attempt = [&](const Algorithm& one) {
      const bool is_new =
          seen.insert(std::string(reinterpret_cast<const char*>(&one), sizeof(one))).second;
      cublasLtMatmulHeuristicResult_t result;
      if (is_new &&
          cublasLtMatmulAlgoCheck(device_.library, description_, b_, a_, out_, out_, &one,
                                  &result) == CUBLAS_STATUS_SUCCESS &&
          result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace_bytes)
        list.push_back(one);
    };
    constexpr std::uint16_t clusters = 60;
    for (const Algorithm& base : proposals) {
      for (const std::uint32_t tile : choices(base, CUBLASLT_ALGO_CAP_TILE_IDS))
        for (std::uint16_t cluster = 0; cluster < clusters; ++cluster)
          attempt(with(with(base, CUBLASLT_ALGO_CONFIG_TILE_ID, tile),
                       CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, cluster));
      for (const std::uint32_t stages : choices(base, CUBLASLT_ALGO_CAP_STAGES_IDS))
        for (std::uint32_t option = 0; option < 32; ++option)
          attempt(with(with(base, CUBLASLT_ALGO_CONFIG_STAGES_ID, stages),
                       CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, option));
      for (std::int32_t parts = 1; parts <= 8; ++parts) {
        const std::uint32_t reduction =
            parts == 1 ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
        attempt(with(with(base, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, parts),
                     CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, reduction));
      }
    }
    return list;
  }

  /// Microseconds of a call in a graph of ten, the median of several launches; 0 where it fails.
  double time_us(const Algorithm& algorithm, int launches) {
    constexpr int calls = 10;
    if (!enqueue(algorithm)) return 0;
    check(cudaStreamSynchronize(device_.stream), "cudaStreamSynchronize");
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    check(cudaStreamBeginCapture(device_.stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < calls; ++i) enqueue(algorithm);
    check(cudaStreamEndCapture(device_.stream, &graph), "cudaStreamEndCapture");
    check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    cudaEvent_t before = nullptr, after = nullptr;
    check(cudaEventCreate(&before), "cudaEventCreate");
    check(cudaEventCreate(&after), "cudaEventCreate");
    std::vector<float> times;
    for (int i = 0; i <= launches; ++i) {
      cudaEventRecord(before, device_.stream);
      cudaGraphLaunch(executable, device_.stream);
      cudaEventRecord(after, device_.stream);
      check(cudaEventSynchronize(after), "cudaEventSynchronize");
      float ms = 0;
      cudaEventElapsedTime(&ms, before, after);
      if (i > 0) times.push_back(ms);  // the first launch warms up
    }
    cudaEventDestroy(before);
    cudaEventDestroy(after);
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    std::nth_element(times.begin(), times.begin() + launches / 2, times.end());
    return 1e3 * static_cast<double>(times[static_cast<std::size_t>(launches / 2)]) / calls;
  }

 private:
  static std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }
  cudaDataType_t type_of_out() const { return product_.is_wide ? CUDA_R_32F : CUDA_R_16BF; }
  static cublasLtMatrixLayout_t matrix(cudaDataType_t type, std::int64_t rows,
                                       std::int64_t columns) {
    cublasLtMatrixLayout_t made = nullptr;
    check(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(columns),
                                     static_cast<std::uint64_t>(rows), columns),
          "cublasLtMatrixLayoutCreate");
    return made;
  }
  template <class Value>
  static Algorithm with(Algorithm algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute,
                        Value value) {
    cublasLtMatmulAlgoConfigSetAttribute(&algorithm, attribute, &value, sizeof(value));
    return algorithm;
  }
  static std::vector<std::uint32_t> choices(const Algorithm& algorithm,
                                            cublasLtMatmulAlgoCapAttributes_t attribute) {
    std::size_t bytes = 0;
    cublasLtMatmulAlgoCapGetAttribute(&algorithm, attribute, nullptr, 0, &bytes);
    std::vector<std::uint32_t> list(bytes / sizeof(std::uint32_t));
    if (!list.empty())
      cublasLtMatmulAlgoCapGetAttribute(&algorithm, attribute, list.data(), bytes, &bytes);
    return list;
  }

  /// On the next set of operands, which the calls before have pushed out of every cache.
  bool enqueue(const Algorithm& algorithm) {
    const std::int64_t set_bytes = a_bytes_ + b_bytes_ + out_bytes_;
    const auto most = static_cast<std::int64_t>(pool_bytes) / set_bytes;
    const auto wanted = 1 + static_cast<std::int64_t>(beyond_caches) / set_bytes;
    // Results lie beside operands, not on them: those stay random.
    std::byte* const a = device_.pool + turn_++ % std::min(most, wanted) * set_bytes;
    const float one = 1, zero = 0;
    std::byte *const b = a + a_bytes_, *const out = b + b_bytes_;
    return cublasLtMatmul(device_.library, description_, &one, b, b_, a, a_, &zero, out, out_, out,
                          out_, &algorithm, device_.workspace, workspace_bytes,
                          device_.stream) == CUBLAS_STATUS_SUCCESS;
  }

  Device& device_;
  Product product_;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, out_ = nullptr;
  std::int64_t a_bytes_ = 0, b_bytes_ = 0, out_bytes_ = 0, turn_ = 0;
};

struct Best {
  double us = 0;
  Algorithm algorithm{};
  void take(double other_us, const Algorithm& other) {
    if (other_us > 0 && (us == 0 || other_us < us)) *this = {other_us, other};
  }
};

std::string words_of(const Algorithm& algorithm) {
  std::string text;
  const auto add = [&]<class Value>(const char* name, cublasLtMatmulAlgoConfigAttributes_t of,
                                    Value value) {
    std::size_t bytes = 0;
    cublasLtMatmulAlgoConfigGetAttribute(&algorithm, of, &value, sizeof(value), &bytes);
    text += std::string(text.empty() ? "" : " ") + name + " " + std::to_string(value);
  };
  add("id", CUBLASLT_ALGO_CONFIG_ID, std::int32_t{0});
  add("tile", CUBLASLT_ALGO_CONFIG_TILE_ID, std::uint32_t{0});
  add("stages", CUBLASLT_ALGO_CONFIG_STAGES_ID, std::uint32_t{0});
  add("split", CUBLASLT_ALGO_CONFIG_SPLITK_NUM, std::uint32_t{0});
  add("cluster", CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, std::uint16_t{0});
  add("option", CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, std::uint32_t{0});
  return text;
}

/// Times of one product: microseconds by way of choosing.
struct Times {
  double first = 0, proposed = 0, without_workspace = 0, neighbour = 0;
};

Times measure(Device& device, const Product& product, double seconds) {
  Problem problem(device, product);
  std::vector<Algorithm> all = problem.proposals(workspace_bytes);
  const std::vector<Algorithm> without = problem.proposals(0);
  constexpr int launches = 5;
  Best proposed, bare, neighbour;
  Times times;
  for (const Algorithm& one : all) {
    const double us = problem.time_us(one, launches);
    if (times.first == 0) times.first = us;
    proposed.take(us, one);
  }
  for (const Algorithm& one : without) bare.take(problem.time_us(one, launches), one);
  all.insert(all.end(), without.begin(), without.end());
  std::vector<Algorithm> others = problem.neighbours(all);
  std::shuffle(others.begin(), others.end(), std::mt19937(1));
  const double end = now_s() + seconds;
  std::size_t tried = 0;
  std::vector<Best> timed;
  for (; tried < others.size() && now_s() < end; ++tried)
    timed.push_back({problem.time_us(others[tried], 1), others[tried]});
  std::erase_if(timed, [](const Best& one) { return one.us == 0; });
  std::sort(timed.begin(), timed.end(), [](const Best& a, const Best& b) { return a.us < b.us; });
  constexpr std::size_t again = 5;
  for (std::size_t i = 0; i < std::min(again, timed.size()); ++i)
    neighbour.take(problem.time_us(timed[i].algorithm, launches), timed[i].algorithm);
  times.proposed = proposed.us;
  times.without_workspace = bare.us;
  times.neighbour = neighbour.us;
  std::printf("%-14s %6ld x %5ld x %5ld %8.1f %8.1f %8.1f %8.1f  %s; %s (%zu of %zu)\n",
              product.name, static_cast<long>(product.m), static_cast<long>(product.n),
              static_cast<long>(product.k), times.first, times.proposed, times.without_workspace,
              times.neighbour, words_of(proposed.algorithm).c_str(),
              words_of(neighbour.algorithm).c_str(), tried, others.size());
  std::fflush(stdout);
  return times;
}

}  // namespace

int main(int count, char** words) {
  const double seconds = count > 1 ? std::atof(words[1]) : 1;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("no CUDA device\n");
    return 13;
  }
  Device device;
  std::printf(
      "cuBLASLt %zu, us a call: first proposal, best proposal, without workspace, best neighbour\n",
      cublasLtGetVersion());
  struct Model {
    const char* name;
    std::vector<Product> products;
  };
  for (const Model& model : {Model{"GPT-2 124M, 16 x 1024 tokens", products_of(16384, 768, 12)},
                             Model{"GPT-2 1.5B, 8 x 1024 tokens", products_of(8192, 1600, 48)}}) {
    std::printf("\n%s\n", model.name);
    Times step;
    for (const Product& product : model.products) {
      const Times one = measure(device, product, seconds);
      step.first += 1e-3 * product.count * one.first;
      step.proposed += 1e-3 * product.count * one.proposed;
      step.without_workspace += 1e-3 * product.count * one.without_workspace;
      step.neighbour += 1e-3 * product.count * std::min(one.proposed, one.neighbour);
    }
    std::printf("all products of a step, ms: %.2f, %.2f, %.2f; with the best neighbours %.2f\n",
                step.first, step.proposed, step.without_workspace, step.neighbour);
  }
  return 0;
}
