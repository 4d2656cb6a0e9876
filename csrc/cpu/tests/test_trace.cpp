// Recording of ops and native calls.
#include "cpu/context.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cpu/ops/rms_norm.hpp"

using namespace deepinfer::cpu;

namespace {

void run_norm(Context& context) {
    const std::vector<float> x(8, 1.0f);
    std::vector<float> out(8);
    const TraceSpan span = context.call("native");
    rms_norm(context, {x.data(), nullptr, out.data(), 1, 8, 1e-6f, false});
}

}  // namespace

TEST_CASE("ops lie inside the call that ran them") {
    Context context(1, Isa::kScalar);
    run_norm(context);
    CHECK(context.trace().stop().empty());  // nobody asked
    context.trace().start(8);
    run_norm(context);
    const std::vector<TraceEvent> events = context.trace().stop();
    REQUIRE(events.size() == 2);
    CHECK(std::string(events[0].name) == "rms_norm");
    CHECK(events[0].kind == SpanKind::kOp);
    CHECK(events[1].kind == SpanKind::kCall);
    CHECK(events[1].begin_ns <= events[0].begin_ns);
    CHECK(events[0].begin_ns <= events[0].end_ns);
    CHECK(events[0].end_ns <= events[1].end_ns);
    run_norm(context);
    CHECK(context.trace().stop().empty());
}

TEST_CASE("a full recording counts what it loses") {
    Context context(1, Isa::kScalar);
    context.trace().start(1);
    run_norm(context);
    CHECK(context.trace().num_lost() == 1);
    CHECK(context.trace().stop().size() == 1);
}
