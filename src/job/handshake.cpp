#include "job/handshake.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/host_facts.h"
#include "base/text.h"
#include "config/changes.h"
#include "config/compare.h"
#include "config/print.h"
#include "measure/build_info.h"
#include "measure/cuda_parts.h"
#include "plan/plan.h"
#include "program/traffic.h"

namespace fourfold::job {
namespace {

constexpr std::string_view configuration = "configuration";

std::string binary_text() {
  const measure::BuildInfo build = measure::build_info();
  return format("Fourfold {} ({}), {}", build.version, build.commit,
                hash128_text(read_file("/proc/self/exe", ExitCode::environment)));
}

std::string libraries_text() {
  std::string text;
  for (const auto& [name, version] : measure::library_versions())
    text += format("{}{} {}", text.empty() ? "" : ", ", name, version);
  return text;
}

/// Those by which libraries choose kernels: two ranks of which one lacks one of them do not compute
/// the same bits.
std::string instruction_sets_text() {
  std::string text;
  for (const std::string& feature : host_facts().cpu_features)
    if (feature.starts_with("avx") || feature.starts_with("amx") || feature == "fma")
      text += (text.empty() ? "" : " ") + feature;
  return text;
}

std::string variables_text(const comm::Variable& variable) {
  constexpr std::array names = {"OPENBLAS_CORETYPE",
                                "DNNL_MAX_CPU_ISA",
                                "ONEDNN_MAX_CPU_ISA",
                                "DNNL_CPU_ISA_HINTS",
                                "ONEDNN_CPU_ISA_HINTS",
                                "DNNL_DEFAULT_FPMATH_MODE",
                                "ONEDNN_DEFAULT_FPMATH_MODE",
                                "GLIBC_TUNABLES",
                                "OMP_DYNAMIC",
                                "LD_PRELOAD"};
  std::string text;
  for (const char* name : names)
    if (const auto value = variable(name))
      text += format("{}{}={}", text.empty() ? "" : " ", name, *value);
  return text.empty() ? "none is set" : text;
}

std::string plan_text(const Job& job) {
  std::string text = plan::to_text(plan::with_fit(job.plan, job.fit), job.graphs);
  for (const program::Bundle& bundle : job.programs.classes)
    for (const program::Program& program : bundle.programs)
      for (const program::Traffic& entry : program::traffic(program))
        text += format("{} {} {} {} {} {}\n", op::to_string(program.kind), entry.axis, entry.kind,
                       entry.label, entry.calls, entry.payload_bytes);
  return hash128_text(text);
}

std::string layout_of(const Job& job) {
  const auto& layout = job.settled.config().plan.layout;
  return layout ? hash128_text(layout->text) : "none is given";
}

/// The ranks in the minority, or all where there is no majority.
std::vector<std::size_t> odd_ranks(const std::vector<std::string>& values) {
  std::map<std::string, std::size_t> votes;
  for (const std::string& value : values) ++votes[value];
  const auto most =
      std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; });
  const bool is_majority = 2 * most->second > values.size();
  std::vector<std::size_t> odd;
  for (std::size_t rank = 0; rank < values.size(); ++rank)
    if (!is_majority || values[rank] != most->first) odd.push_back(rank);
  return odd;
}

/// "train.steps = 41 there, 40 on rank 0".
std::string differing_keys(const std::string& odd, const std::string& other, std::size_t rank) {
  const char* const name = "a rank's configuration";
  const auto differences =
      config::differences(config::load_yaml(odd, name), config::load_yaml(other, name));
  std::string text;
  constexpr std::size_t most = 3;
  for (std::size_t i = 0; i < std::min(differences.size(), most); ++i)
    text += format("{}{} = {} there, {} on rank {}", i == 0 ? "" : "; ", differences[i].key,
                   differences[i].left.value, differences[i].right.value, rank);
  if (differences.size() > most) text += format("; {} more keys", differences.size() - most);
  return text;
}

std::string in_words(const CommonFact& fact, const std::vector<std::string>& values,
                     const std::vector<std::string>& hosts) {
  const std::vector<std::size_t> odd = odd_ranks(values);
  std::vector<std::string> names;
  for (const std::size_t rank : odd) names.push_back(format("{} ({})", rank, hosts[rank]));
  const std::size_t there = odd.front();
  // One that has something else: there is one, or nothing would differ.
  const auto other = static_cast<std::size_t>(
      std::ranges::find_if(values, [&](const auto& value) { return value != values[there]; }) -
      values.begin());
  const bool is_minority = odd.size() < values.size();
  const std::string what =
      fact.what == configuration
          ? differing_keys(values[there], values[other], other)
          : format("{} there, {} on rank {}", values[there], values[other], other);
  return format("{} {} {}: {}; {}", (odd.size() == 1 ? "rank " : "ranks ") + join(names, ", "),
                odd.size() == 1 ? "has" : "have",
                is_minority ? format("another {} than the other ranks", fact.what)
                            : format("not the same {}", fact.what),
                what, fact.remedy);
}

}  // namespace

CommonFact cuda_libraries_fact(const std::vector<machine::CudaLibrary>& libraries) {
  std::string text;
  for (const machine::CudaLibrary& library : libraries)
    if (!library.loaded.empty())
      text += format("{}{} {}", text.empty() ? "" : ", ", library.name, library.loaded);
  return {"set of CUDA libraries", text.empty() ? "none is loaded" : text,
          "put the same ones into LD_LIBRARY_PATH on all hosts (scripts/cuda-libraries prints "
          "where they lie)"};
}

std::vector<CommonFact> common_facts(const Job& job, const data::Source& source,
                                     const comm::Variable& variable) {
  std::vector<CommonFact> facts = {
      {"binary", binary_text(), "start the same file on all hosts"},
      {"set of libraries", libraries_text(), "install the same ones on all hosts"},
      {"processor", instruction_sets_text(), "start the job on hosts of one kind"},
      {"environment", variables_text(variable), "set these variables on all hosts, or on none"},
      {std::string(configuration),
       config::resolved_yaml(config::without_threads(job.settled.config())),
       "start all ranks with the same files and options"},
      {"device", device_text(job), "start the job on hosts of one kind, or set run.device = cpu"},
      {"kernel table", hash128_text(job.kernel_table), "give all ranks the same run.kernel_table"},
      {"layout", layout_of(job), "bring the same parallel.layout to all hosts"},
      {"data set", source.fingerprint(), "bring the same data.path to all hosts"},
      {"plan", plan_text(job), "this is a bug in Fourfold unless a host is faulty; report it"}};
  if (job.device == Device::cuda) facts.push_back(cuda_libraries_fact(measure::cuda_libraries()));
  return facts;
}

void require_common(const std::vector<CommonFact>& facts, const std::vector<std::string>& hosts,
                    comm::World& world) {
  std::string own;
  for (const CommonFact& fact : facts) own += hash128_text(fact.value);
  const std::vector<std::string> all = world.all_gather(own);
  const std::size_t width = own.size() / facts.size();
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const auto differs = [&](const std::string& text) {
      return text.substr(i * width, width) != all[0].substr(i * width, width);
    };
    // All ranks see the same, and so all take part in what follows.
    if (std::ranges::none_of(all, differs)) continue;
    throw UserError(ExitCode::ranks_disagree,
                    in_words(facts[i], world.all_gather(facts[i].value), hosts));
  }
}

}  // namespace fourfold::job
