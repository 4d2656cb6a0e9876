// Tests of the policy that switches drafts on and off, and of the estimate that it goes by.
#include <doctest/doctest.h>

#include <random>

#include "core/acceptance_estimate.hpp"
#include "core/draft_policy.hpp"

using namespace deepinfer;

TEST_CASE("policy: drafts that pay are made and verified in every step") {
    DraftPolicy policy;
    for (int i = 0; i < 1000; ++i) {
        const DraftAction action = policy.decide({.with_drafts = 2, .without_drafts = 1, .at_best = 3});
        REQUIRE(action.makes);
        REQUIRE(action.verifies);
        REQUIRE_FALSE(action.is_probe);
    }
}

TEST_CASE("policy: drafts that do not pay are dropped, and tried again in two of 200 steps") {
    DraftPolicy policy;
    int num_made = 0;
    int num_verified = 0;
    bool made_before = false;
    for (int i = 0; i < 20000; ++i) {
        const DraftAction action = policy.decide({.with_drafts = 0.8, .without_drafts = 1, .at_best = 3});
        CHECK(action.verifies == made_before);
        CHECK(action.is_probe == (action.makes || action.verifies));
        made_before = action.makes;
        num_made += action.makes;
        num_verified += action.verifies;
    }
    CHECK(num_made == 100);
    CHECK(num_made + num_verified <= 200);
}

TEST_CASE("policy: context is left for as many steps as drafts look at, and only before drafts") {
    constexpr int64_t kLead = 16;
    DraftPolicy policy(kLead);
    CHECK(policy.decide({2, 1, 3}).keeps_context);
    CHECK(policy.keeps_context());
    int64_t num_kept = 0, num_kept_in_all = 0, num_made = 0;
    for (int i = 0; i < 2000; ++i) {
        const DraftAction action = policy.decide({0.8, 1, 3});
        CHECK(policy.keeps_context() == action.keeps_context);
        if (action.makes) {
            CHECK(num_kept >= kLead);
            ++num_made;
        }
        num_kept = action.keeps_context ? num_kept + 1 : 0;
        num_kept_in_all += action.keeps_context;
    }
    CHECK(num_made > 5);
    CHECK(num_kept_in_all <= (num_made + 1) * (kLead + 2));
    // They pay again: context first.
    while (policy.keeps_context()) policy.decide({0.8, 1, 3});
    for (int64_t i = 0; i < kLead; ++i) {
        const DraftAction action = policy.decide({2, 1, 3});
        CHECK_FALSE(action.makes);
        CHECK(action.keeps_context);
    }
    CHECK(policy.decide({2, 1, 3}).makes);
}

TEST_CASE("policy: a probe that costs much comes less often") {
    DraftPolicy policy;
    int num_made = 0;
    for (int i = 0; i < 20000; ++i)
        num_made += policy.decide({.with_drafts = 0.8, .without_drafts = 1, .at_best = 3, .probe_steps = 5}).makes;
    CHECK(num_made == 20);  // 5 steps are 0.5% of 1000
}

TEST_CASE("policy: no probe where not even perfect drafts would pay") {
    DraftPolicy policy;
    for (int i = 0; i < 1000; ++i) {
        REQUIRE_FALSE(policy.decide({.with_drafts = 0.5, .without_drafts = 1, .at_best = 0.9}).makes);
    }
}

TEST_CASE("policy: small changes do not switch, and probes stay rare whatever happens between") {
    DraftPolicy policy;
    CHECK(policy.decide({0.995, 1, 3}).makes);
    CHECK_FALSE(policy.decide({0.985, 1, 3}).makes);
    CHECK_FALSE(policy.decide({1.005, 1, 3}).makes);
    CHECK(policy.decide({1.015, 1, 3}).makes);
    CHECK_FALSE(policy.pays({0.9, 1, 3}));
    CHECK(policy.is_on());
    std::mt19937 random(2);
    int last_probe = -1000;
    for (int i = 0; i < 20000; ++i) {
        const double with_drafts = random() % 20 == 0 ? 1.2 : 0.8;
        const DraftAction action = policy.decide({with_drafts, 1, 3});
        if (!action.is_probe || !action.makes) continue;
        REQUIRE(i - last_probe >= DraftPolicy::kProbeInterval);
        last_probe = i;
    }
}

TEST_CASE("estimate: optimistic before anything is known, then calibrated means") {
    AcceptanceEstimate estimate(3);
    CHECK(estimate.mean(2) == 1.0F);
    std::mt19937 random(1);
    std::uniform_real_distribution<double> unit(0, 1);
    for (int i = 0; i < 4000; ++i) {
        // Confidence says 0.8, the truth is 0.6; only the first two are ever verified.
        const int64_t num_accepted = unit(random) < 0.6 ? (unit(random) < 0.6 ? 2 : 1) : 0;
        estimate.observe(cumulative_rates(std::vector<float>{0.8F, 0.8F, 0.8F}), 2, num_accepted, 1024);
    }
    CHECK(estimate.mean(0) == doctest::Approx(0.6).epsilon(0.05));
    CHECK(estimate.mean(1) == doctest::Approx(0.36).epsilon(0.1));
    CHECK(estimate.mean(2) <= estimate.mean(1));
    CHECK(estimate.calibrated(0.8F, 0) == doctest::Approx(0.6).epsilon(0.05));
    CHECK(estimate.calibrated(1.0F, 0) <= 1.0F);
}

TEST_CASE("estimate: choosing only the best drafts does not flatter the rest") {
    AcceptanceEstimate estimate(1);
    std::mt19937 random(1);
    std::uniform_real_distribution<float> unit(0, 1);
    for (int i = 0; i < 8000; ++i) {
        const float rate = unit(random);
        const bool is_verified = rate > 0.8F;
        estimate.observe({rate}, is_verified, is_verified && unit(random) < rate, 1024);
    }
    CHECK(estimate.mean(0) == doctest::Approx(0.5).epsilon(0.08));
}
