/// PHOLD on ns-3. Each message is an event of the simulator, scheduled for the process that receives it.
///
///     ns3-phold SCHEDULER phold PENDING EVENTS
///
/// SCHEDULER is map, heap, calendar or priority-queue. The example `engines` of `des` says what the rest means, and what is
/// printed. The random numbers are those of `des`, so the run is the same; logarithms and exponentials are the C library's,
/// whose last digit may differ.

#include "random.h"

#include <ns3/core-module.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr uint64_t PROCESSES_MAX = 1024;
constexpr double DELAY_MEAN_PS = 1e9;
constexpr int64_t LOOKAHEAD_PS = 100'000'000;

struct Process
{
    Stream stream;
    uint64_t received = 0;
};

/// All processes, and the counters that end the warm-up and the measurement.
struct Phold
{
    std::vector<Process> processes;
    uint64_t received = 0;
    uint64_t begin_at = 0;
    uint64_t end_at = 0;
    double begun_seconds = 0;
    double seconds = 0;
    int64_t begun_ps = 0;
    int64_t elapsed_ps = 0;
};

Phold phold;

double cpu_seconds()
{
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

int64_t resident_bytes()
{
    std::ifstream status("/proc/self/status");
    std::string word;
    int64_t kib = 0;
    while (status >> word) {
        if (word == "VmRSS:") {
            status >> kib;
        }
    }
    return kib * 1024;
}

void receive(uint32_t process);

/// ns-3's time has nanoseconds, ours picoseconds: the number is the same.
void send(uint32_t from)
{
    Stream& stream = phold.processes[from].stream;
    auto to = uint32_t(stream.below(phold.processes.size()));
    auto delay_ps = LOOKAHEAD_PS + int64_t(stream.exponential() * DELAY_MEAN_PS + 0.5);
    ns3::Simulator::Schedule(ns3::TimeStep(uint64_t(delay_ps)), &receive, to);
}

int64_t now_ps()
{
    return ns3::Simulator::Now().GetTimeStep();
}

void receive(uint32_t process)
{
    phold.received += 1;
    phold.processes[process].received += 1;
    send(process);
    if (phold.received == phold.begin_at) {
        phold.begun_ps = now_ps();
        phold.begun_seconds = cpu_seconds();
    } else if (phold.received == phold.end_at) {
        phold.seconds = cpu_seconds() - phold.begun_seconds;
        phold.elapsed_ps = now_ps() - phold.begun_ps;
        ns3::Simulator::Stop();
    }
}

} // namespace

int main(int count, char** words)
{
    const std::map<std::string, std::string> schedulers = {
        {"map", "ns3::MapScheduler"},
        {"heap", "ns3::HeapScheduler"},
        {"calendar", "ns3::CalendarScheduler"},
        {"priority-queue", "ns3::PriorityQueueScheduler"},
    };
    if (count != 5 || std::string(words[2]) != "phold" || schedulers.count(words[1]) == 0) {
        std::cerr << "usage: ns3-phold map|heap|calendar|priority-queue phold PENDING EVENTS\n";
        return 2;
    }
    auto pending = std::strtoull(words[3], nullptr, 10);
    auto events = std::strtoull(words[4], nullptr, 10);
    auto processes = std::min<uint64_t>(pending, PROCESSES_MAX);
    for (uint64_t process = 0; process < processes; ++process) {
        phold.processes.push_back({Stream(1, process)});
    }
    // The first exponential number makes tables.
    Stream(0, 0).exponential();
    auto before = resident_bytes();
    ns3::Simulator::SetScheduler(ns3::ObjectFactory(schedulers.at(words[1])));
    phold.begin_at = 2 * pending;
    phold.end_at = phold.begin_at + events;
    for (uint64_t message = 0; message < pending; ++message) {
        send(uint32_t(message % processes));
    }
    ns3::Simulator::Run();
    std::printf("%.9f %llu %lld %lld\n",
                phold.seconds,
                events,
                (long long)(resident_bytes() - before),
                (long long)phold.elapsed_ps);
    ns3::Simulator::Destroy();
}
