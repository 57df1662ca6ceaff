#include "machine/peak_rates.h"

#include <array>

namespace fourfold::machine {
namespace {

struct Sheet {
  std::string_view name;  // by CUDA; a part of a device (MIG) has another
  PeakRates rates;
};

// Sheets print bf16 and tf32 of Ampere with and of Hopper only with sparsity, which is twice as
// much: here is the half. GeForce figures are those with sums in float32, half of the others.
constexpr std::array sheets = {
    Sheet{"NVIDIA B200", {2250e12, 1125e12, 75e12, 8.0e12, "NVIDIA DGX B200 data sheet, 2024"}},
    Sheet{"NVIDIA GH200 480GB",
          {989.4e12, 494.7e12, 66.9e12, 4.0e12, "NVIDIA GH200 data sheet, 2023"}},
    Sheet{"NVIDIA H200 NVL", {835.5e12, 417.5e12, 60e12, 4.8e12, "NVIDIA H200 data sheet, 2024"}},
    Sheet{"NVIDIA H200", {989.4e12, 494.7e12, 66.9e12, 4.8e12, "NVIDIA H200 data sheet, 2024"}},
    Sheet{"NVIDIA H100 PCIe",
          {756e12, 378e12, 51.2e12, 2.0e12, "NVIDIA H100 white paper, 2022, table 3"}},
    Sheet{"NVIDIA H100 NVL", {835.5e12, 417.5e12, 60e12, 3.9e12, "NVIDIA H100 data sheet, 2024"}},
    Sheet{"NVIDIA H100 80GB HBM3",
          {989.4e12, 494.7e12, 66.9e12, 3.35e12, "NVIDIA H100 white paper, 2022, table 3"}},
    Sheet{"NVIDIA A100-SXM4-80GB",
          {312e12, 156e12, 19.5e12, 2.039e12, "NVIDIA A100 data sheet, 2021"}},
    Sheet{"NVIDIA A100 80GB PCIe",
          {312e12, 156e12, 19.5e12, 1.935e12, "NVIDIA A100 data sheet, 2021"}},
    Sheet{"NVIDIA A100-SXM4-40GB",
          {312e12, 156e12, 19.5e12, 1.555e12, "NVIDIA A100 white paper, 2020, table 1"}},
    Sheet{"NVIDIA A100-PCIE-40GB",
          {312e12, 156e12, 19.5e12, 1.555e12, "NVIDIA A100 white paper, 2020, table 1"}},
    Sheet{"NVIDIA L40S", {362.05e12, 183e12, 91.6e12, 864e9, "NVIDIA L40S data sheet, 2023"}},
    Sheet{"NVIDIA RTX A6000",
          {154.8e12, 77.4e12, 38.7e12, 768e9, "NVIDIA GA102 white paper, 2021, table 9"}},
    Sheet{"NVIDIA GeForce RTX 4090",
          {165.2e12, 82.6e12, 82.6e12, 1008e9, "NVIDIA Ada white paper, 2022, table 2"}},
    Sheet{"NVIDIA GeForce RTX 3090",
          {71e12, 35.6e12, 35.6e12, 936e9, "NVIDIA GA102 white paper, 2021, table 2"}},
};

}  // namespace

std::optional<PeakRates> peak_rates(std::string_view device_name) {
  for (const Sheet& sheet : sheets)
    if (device_name == sheet.name) return sheet.rates;
  return std::nullopt;
}

}  // namespace fourfold::machine
