#include "planner/core/flat_curve.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace reprise::planner {
namespace {

// Returns when the search is to end, or the caller has given up waiting for that.
bool Ends(const Options& options) {
  const auto cancelled = [&] { return options.cancel->load(); };
  return std::async(std::launch::async,
                    [&] {
                      while (!cancelled()) std::this_thread::yield();
                      return true;
                    })
      .get();
}

TEST(FlatCurveTest, ASearchNearItsBoundThatImprovesNoMoreEnds) {
  bool said = false;
  Options options;
  options.on_flat = [&] { said = true; };
  FlatCurve curve(options, /*least_seconds=*/0.01);
  curve.Watch(1'000'000);
  curve.options().on_improvement(1'001'000, "test");
  EXPECT_TRUE(Ends(curve.options()));
  EXPECT_FALSE(said);
  curve.End();
  EXPECT_TRUE(said);
}

TEST(FlatCurveTest, AFarPlanDoesNotEndIt) {
  bool said = false;
  Options options;
  options.on_flat = [&] { said = true; };
  FlatCurve curve(options, /*least_seconds=*/0);
  curve.Watch(1'000'000);
  curve.options().on_improvement(1'001'001, "test");
  curve.End();
  EXPECT_FALSE(said);
}

TEST(FlatCurveTest, TheCallerCanStillCancel) {
  std::atomic<bool> cancelled = false;
  Options options;
  options.cancel = &cancelled;
  options.on_flat = [] { FAIL() << "it was not flat"; };
  FlatCurve curve(options, /*least_seconds=*/1);
  curve.Watch(1);
  cancelled = true;
  EXPECT_TRUE(Ends(curve.options()));
}

TEST(FlatCurveTest, ItDoesNothingUnlessAsked) {
  Options options;
  options.iterations = 3;
  options.on_flat = [] { FAIL() << "iterations were given"; };
  FlatCurve curve(options, 0);
  EXPECT_EQ(curve.options().cancel, nullptr);
}

}  // namespace
}  // namespace reprise::planner
