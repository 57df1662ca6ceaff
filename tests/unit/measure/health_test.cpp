#include "measure/health.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "kernels/cpu/libraries.h"

namespace fourfold::measure {
namespace {

constexpr std::int64_t gibibyte = std::int64_t{1} << 30;
constexpr const char* variables[] = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "SLURM_JOB_ID"};

/// A machine about which nothing is to be said.
HostFacts good_host() {
  HostFacts host;
  host.cpu_model = "a CPU";
  host.cpu_features = kernels::cpu::instruction_sets();
  host.cores_online = 4;
  host.cores = {0, 1, 2, 3};
  host.memory_bytes = 8 * gibibyte;
  host.memory_available_bytes = 4 * gibibyte;
  return host;
}

HealthItem item(const std::string& name, const HostFacts& host,
                const std::map<std::string, std::string>& environment = {}) {
  const std::vector<HealthItem> items =
      health(host, variables, [&](const std::string& asked) -> std::optional<std::string> {
        const auto place = environment.find(asked);
        if (place == environment.end()) return std::nullopt;
        return place->second;
      });
  const auto found = std::ranges::find(items, name, &HealthItem::name);
  EXPECT_NE(found, items.end()) << name;
  return found == items.end() ? HealthItem{} : *found;
}

TEST(Health, what_is_well_has_no_advice) {
  for (const char* name : {"cpu", "cores", "memory", "openmp", "slurm"}) {
    const HealthItem found = item(name, good_host());
    EXPECT_EQ(found.verdict, Verdict::ok) << name;
    EXPECT_EQ(found.advice, "") << name;
  }
  EXPECT_EQ(item("cores", good_host()).text, "4 of 4 may be used: 0-3");
  const std::string cpu = item("cpu", good_host()).text;
  EXPECT_NE(cpu.find(kernels::cpu::has_bf16_products() ? "bf16 has products of its own"
                                                       : "bf16 is computed in fp32"),
            std::string::npos)
      << cpu;
}

TEST(Health, a_cpu_that_lacks_what_the_build_uses_is_bad) {
  if (kernels::cpu::instruction_sets().empty()) GTEST_SKIP() << "built for the least CPU";
  HostFacts host = good_host();
  host.cpu_features = {"fpu"};
  const HealthItem found = item("cpu", host);
  EXPECT_EQ(found.verdict, Verdict::bad);
  EXPECT_NE(found.advice.find("this CPU lacks " + kernels::cpu::instruction_sets()[0]),
            std::string::npos)
      << found.advice;
}

TEST(Health, cores_beyond_the_time_of_the_control_group_are_not_used) {
  HostFacts host = good_host();
  host.cpu_limit = 2.5;
  const HealthItem found = item("cores", host);
  EXPECT_EQ(found.verdict, Verdict::ok);
  EXPECT_NE(found.text.find("the control group allows the time of 2.5, so run.threads: 0 takes 2"),
            std::string::npos)
      << found.text;
}

TEST(Health, a_process_bound_to_one_core_is_told_how_to_get_more) {
  HostFacts host = good_host();
  host.cores = {2};
  EXPECT_NE(item("cores", host).advice.find("--bind-to none"), std::string::npos);
}

TEST(Health, little_memory_is_a_warning_and_hardly_any_is_bad) {
  HostFacts host = good_host();
  host.memory_available_bytes = gibibyte / 2;
  EXPECT_EQ(item("memory", host).verdict, Verdict::warn);
  host.memory_available_bytes = gibibyte / 32;
  EXPECT_EQ(item("memory", host).verdict, Verdict::bad);
}

TEST(Health, settings_of_openmp_are_named_and_judged) {
  const std::map<std::string, std::string> environment = {
      {"OMP_WAIT_POLICY", "ACTIVE"}, {"GOMP_SPINCOUNT", "0"}, {"SLURM_JOB_ID", "7"}};
  const HealthItem found = item("openmp", good_host(), environment);
  EXPECT_EQ(found.text, "OMP_WAIT_POLICY=ACTIVE");
  EXPECT_EQ(found.verdict, Verdict::warn);
  EXPECT_NE(found.advice.find("unset OMP_WAIT_POLICY"), std::string::npos) << found.advice;
  EXPECT_EQ(item("slurm", good_host(), environment).text, "inside job 7");
}

TEST(Health, a_missing_mpirun_is_a_warning) {
  EXPECT_EQ(item("mpi", good_host(), {{"PATH", ""}}).verdict, Verdict::warn);
}

}  // namespace
}  // namespace fourfold::measure
