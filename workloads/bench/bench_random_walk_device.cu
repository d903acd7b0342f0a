// Experiments with random-walk allocation on a CUDA device. Prints a JSON object a line.
//   bench_random_walk_device check | pages | runs | utilisation | join [SECONDS]
// Exit status: 0, 1 for errors that were found, 2 for usage, 77 without a device.
#include <cstdlib>
#include <cstring>
#include <exception>

#include "device_bench.cuh"

int main(int count, char** words) {
  const char* what = count > 1 ? words[1] : "";
  const double seconds = count > 2 ? std::atof(words[2]) : 60;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "bench_random_walk_device: no CUDA device\n");
    return 77;
  }
  try {
    cudaDeviceProp device;
    bench::check_cuda(cudaGetDeviceProperties(&device, 0), "the device");
    bench::emit(R"({"kind": "device", "name": "%s", "multiprocessors": %d, "capability": "%d.%d"})",
                device.name, device.multiProcessorCount, device.major, device.minor);
    int errors = -1;
    if (std::strcmp(what, "check") == 0) errors = bench::check_everything();
    if (std::strcmp(what, "pages") == 0) errors = bench::measure_pages(seconds);
    if (std::strcmp(what, "runs") == 0) errors = bench::measure_runs(seconds);
    if (std::strcmp(what, "utilisation") == 0) errors = bench::measure_utilisation(seconds);
    if (std::strcmp(what, "join") == 0) errors = bench::measure_join(seconds);
    if (errors >= 0) return errors == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    bench::emit(R"({"kind": "failed", "experiment": "%s", "message": "%s"})", what, error.what());
    return 1;
  }
  std::fprintf(stderr,
               "usage: bench_random_walk_device check|pages|runs|utilisation|join [SECONDS]\n");
  return 2;
}
