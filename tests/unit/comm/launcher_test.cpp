#include "comm/launcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/cores.h"
#include "base/error.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "comm/threads.h"

namespace fourfold::comm {
namespace {

using Kind = LauncherFacts::Kind;

LauncherFacts facts_of(const std::map<std::string, std::string>& variables) {
  return launcher_facts([&](const std::string& name) -> std::optional<std::string> {
    const auto place = variables.find(name);
    if (place == variables.end()) return std::nullopt;
    return place->second;
  });
}

/// The text of the UserError(bad_config) that a call throws; empty where it throws nothing.
template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    return error.what();
  }
  return "";
}

TEST(LauncherFacts, nothing_in_the_environment_means_no_launcher) {
  const LauncherFacts facts = facts_of({{"PATH", "/bin"}});
  EXPECT_EQ(facts.kind, Kind::none);
  EXPECT_FALSE(facts.launched_by_mpi());
}

TEST(LauncherFacts, mpirun_mpiexec_srun_and_pmix_are_told_apart) {
  const auto open = facts_of({{"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_RANK", "2"},
                              {"PMIX_RANK", "2"},
                              {"SLURM_STEP_NUM_TASKS", "1"}});
  EXPECT_EQ(open.kind, Kind::open_mpi);
  EXPECT_EQ(open.tasks, 4);
  EXPECT_EQ(open.rank, 2);
  EXPECT_TRUE(open.launched_by_mpi());
  const auto hydra = facts_of({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"PMI_FD", "9"}});
  EXPECT_EQ(hydra.kind, Kind::hydra);
  EXPECT_EQ(hydra.rank, 1);
  EXPECT_TRUE(hydra.launched_by_mpi());
  const auto slurm = facts_of({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "7"}});
  EXPECT_EQ(slurm.kind, Kind::slurm);
  EXPECT_EQ(slurm.rank, 7);
  EXPECT_TRUE(slurm.launched_by_mpi());
  const auto pmix = facts_of({{"PMIX_RANK", "3"}});
  EXPECT_EQ(pmix.kind, Kind::pmix);
  EXPECT_EQ(pmix.tasks, std::nullopt);
  EXPECT_TRUE(pmix.launched_by_mpi());
}

TEST(LauncherFacts, a_batch_script_and_a_single_task_run_their_ranks_as_threads) {
  EXPECT_FALSE(facts_of({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}).launched_by_mpi());
  EXPECT_FALSE(facts_of({{"SLURM_STEP_NUM_TASKS", "1"}}).launched_by_mpi());
  EXPECT_FALSE(facts_of({{"OMPI_COMM_WORLD_SIZE", "1"}}).launched_by_mpi());
}

TEST(LauncherFacts, numbers_that_are_none_are_ignored) {
  EXPECT_EQ(facts_of({{"OMPI_COMM_WORLD_SIZE", "four"}}).kind, Kind::none);
  EXPECT_EQ(facts_of({{"OMPI_COMM_WORLD_SIZE", "-4"}}).kind, Kind::none);
}

TEST(CheckLaunch, srun_without_a_way_for_mpi_is_refused_before_mpi_starts) {
  const auto alone = facts_of({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "1"}});
  EXPECT_NE(refusal([&] { check_launch(alone, "Open MPI v4.1.4"); }).find("srun started 4 tasks"),
            std::string::npos);
  EXPECT_NE(refusal([&] { check_launch(alone, "Open MPI v4.1.4"); }).find("--mpi=pmix"),
            std::string::npos);
  for (const char* found : {"PMIX_RANK", "PMI_RANK", "PMI_FD"})
    EXPECT_EQ(refusal([&] {
                check_launch(facts_of({{"SLURM_STEP_NUM_TASKS", "4"}, {found, "1"}}),
                             "MPICH Version: 4.0.2");
              }),
              "");
  EXPECT_NE(
      refusal([&] {
        check_launch(facts_of({{"SLURM_STEP_NUM_TASKS", "4"}, {"PMI_FD", "9"}}), "Open MPI v4.1.4");
      })
          .find("srun started 4 tasks by PMI (--mpi=pmi2), through which Open MPI v4.1.4 cannot "
                "find the others; start them with srun --mpi=pmix"),
      std::string::npos);
  EXPECT_EQ(refusal([&] { check_launch(facts_of({{"SLURM_STEP_NUM_TASKS", "1"}}), "MPICH"); }), "");
}

/// Launchers that start tasks without MPI too, each with its own variables.
TEST(CheckLaunch, other_launchers_without_a_way_for_mpi_are_refused_too) {
  struct Case {
    const char *size, *rank, *says, *advises;
  };
  for (const Case& c :
       {Case{"FLUX_JOB_SIZE", "FLUX_TASK_RANK", "flux run started 2 tasks", "flux run -o pmi=pmix"},
        Case{"PALS_SIZE", "PALS_RANKID", "PALS (mpiexec of HPE Cray) started 2 tasks", "mpirun"},
        Case{"JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", "jsrun started 2 tasks", "mpirun"},
        Case{"WORLD_SIZE", "RANK", "torchrun (WORLD_SIZE) started 2 tasks", "mpirun -n RANKS"}}) {
    const auto alone = facts_of({{c.size, "2"}, {c.rank, "1"}});
    EXPECT_TRUE(alone.launched_by_mpi()) << c.size;
    EXPECT_EQ(alone.rank, 1) << c.size;
    const std::string text = refusal([&] { check_launch(alone, "Open MPI v4.1.4"); });
    EXPECT_NE(text.find(c.says), std::string::npos) << text;
    EXPECT_NE(text.find(c.advises), std::string::npos) << text;
    EXPECT_NE(text.find(format("unset {}", c.size)), std::string::npos) << text;
    const auto found = facts_of({{c.size, "2"}, {c.rank, "1"}, {"PMIX_RANK", "1"}});
    EXPECT_EQ(refusal([&] { check_launch(found, "Open MPI v4.1.4"); }), "") << c.size;
    EXPECT_TRUE(found.launched_by_mpi()) << c.size;
    EXPECT_FALSE(facts_of({{c.size, "1"}}).launched_by_mpi()) << c.size;
    EXPECT_FALSE(facts_of({{c.size, "two"}}).launched_by_mpi()) << c.size;
  }
}

TEST(CheckLaunch, tasks_are_of_the_launcher_that_is_nearest_to_them) {
  const auto flux = facts_of({{"FLUX_JOB_SIZE", "2"}, {"PMI_SIZE", "2"}, {"PMI_FD", "7"}});
  EXPECT_EQ(flux.kind, Kind::flux) << "which speaks PMI itself";
  EXPECT_EQ(refusal([&] { check_launch(flux, "MPICH Version: 4.0.2"); }), "");
  EXPECT_NE(refusal([&] { check_world_size(flux, 1, "MPICH"); }).find("flux run started 2 tasks"),
            std::string::npos);
  const auto hydra = facts_of({{"FLUX_JOB_SIZE", "1"}, {"PMI_SIZE", "4"}, {"PMI_RANK", "3"}});
  EXPECT_EQ(hydra.kind, Kind::hydra) << "mpiexec within a job of Flux";
  EXPECT_EQ(hydra.tasks, 4);
  for (const char* size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const auto mpi = facts_of({{size, "4"}, {"PMI_RANK", "0"}, {"WORLD_SIZE", "2"}});
    EXPECT_EQ(mpi.tasks, 4) << "WORLD_SIZE is left over";
    EXPECT_EQ(refusal([&] { check_launch(mpi, "Open MPI v4.1.4"); }), "");
  }
  const auto torchrun = facts_of(
      {{"SLURM_STEP_NUM_TASKS", "1"}, {"PMI_RANK", "0"}, {"WORLD_SIZE", "2"}, {"RANK", "1"}});
  EXPECT_EQ(torchrun.kind, Kind::torchrun) << "srun started torchrun, which started two";
  EXPECT_NE(refusal([&] { check_launch(torchrun, "MPICH"); }).find("torchrun"), std::string::npos);
}

TEST(AdviseThreads, a_limit_on_time_is_shared_by_the_ranks_of_a_host) {
  const Placement both{"a", std::vector<bool>(64, true)};
  const std::vector<Placement> ranks = {both, both};
  EXPECT_EQ(advise_threads(ranks, 0, 64, std::nullopt).threads, 32);
  EXPECT_EQ(advise_threads(ranks, 0, 64, 4.0).threads, 2);
  EXPECT_EQ(advise_threads(ranks, 0, 64, 1.0).threads, 1);
  EXPECT_EQ(advise_threads(std::span(ranks).first(1), 0, 64, 2.0).threads, 2);
}

TEST(CheckWorldSize, ranks_that_were_started_alone_are_refused_with_the_likely_cause) {
  const auto slurm = facts_of({{"SLURM_STEP_NUM_TASKS", "4"}, {"PMI_RANK", "0"}});
  const auto of_slurm = refusal([&] { check_world_size(slurm, 1, "Open MPI v4.1.4"); });
  EXPECT_NE(of_slurm.find("srun started 4 tasks, but each of them sees only itself through MPI "
                          "(Open MPI v4.1.4)"),
            std::string::npos)
      << of_slurm;
  EXPECT_NE(of_slurm.find("--mpi=pmix"), std::string::npos);
  const auto hydra = facts_of({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}});
  const auto of_hydra = refusal([&] { check_world_size(hydra, 1, "Open MPI v4.1.4"); });
  EXPECT_NE(of_hydra.find("the mpirun of that library"), std::string::npos) << of_hydra;
  EXPECT_NE(refusal([&] { check_world_size(facts_of({{"PMIX_RANK", "0"}}), 1, "x"); }), "");
  EXPECT_EQ(refusal([&] { check_world_size(hydra, 2, "MPICH"); }), "");
}

Placement placement(const std::string& host, const std::string& cores) {
  Placement result{host, {}};
  for (const char c : cores) result.cores.push_back(c == '1');
  return result;
}

TEST(AdviseThreads, ranks_that_share_a_mask_share_its_cores) {
  const std::vector<Placement> shared(3, placement("a", "11111111"));
  EXPECT_EQ(advise_threads(shared, 1, 8).threads, 2);
  EXPECT_EQ(advise_threads(shared, 1, 8).warning, "");
  const std::vector<Placement> bound{placement("a", "1100"), placement("a", "0011")};
  EXPECT_EQ(advise_threads(bound, 0, 4).threads, 2);
  const std::vector<Placement> hosts{placement("a", "1111"), placement("b", "1111")};
  EXPECT_EQ(advise_threads(hosts, 0, 4).threads, 4);
  const std::vector<Placement> crowded(9, placement("a", "11"));
  EXPECT_EQ(advise_threads(crowded, 0, 2).threads, 1);
  EXPECT_EQ(advise_threads(crowded, 0, 2).warning, "");
}

TEST(AdviseThreads, a_rank_pinned_to_one_of_many_cores_is_told_the_option) {
  const std::vector<Placement> pinned{placement("n1", "1"), placement("n1", "01")};
  const ThreadAdvice advice = advise_threads(pinned, 1, 16);
  EXPECT_EQ(advice.threads, 1);
  EXPECT_NE(advice.warning.find("each rank on n1 is pinned to one core, although the host has 16 "
                                "for 2 ranks"),
            std::string::npos)
      << advice.warning;
  EXPECT_NE(advice.warning.find("--bind-to none"), std::string::npos);
  EXPECT_NE(advice.warning.find("--map-by slot:PE=8"), std::string::npos);
  EXPECT_EQ(advise_threads(pinned, 1, 2).warning, "");
}

TEST(AdviseThreads, rank_threads_divide_the_cores_of_their_process) {
  const Placement mine = own_placement();
  const auto cores = static_cast<int>(std::ranges::count(mine.cores, true));
  ThreadJob job(2);
  const std::optional<double> limit = cpu_limit();
  const int within = cores_within(static_cast<std::size_t>(cores),
                                  limit ? std::optional(*limit / 2) : std::nullopt);
  job.run([&](World& world) {
    EXPECT_EQ(advise_threads(world).threads, std::min(std::max(1, cores / 2), within));
  });
}

}  // namespace
}  // namespace fourfold::comm
