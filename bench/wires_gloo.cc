// gloo's allreduce over TCP, for bench_wires.
#include "wires.h"

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

// Each rank sets one key in turn, so one exchange knows them all.
class Exchanged : public gloo::rendezvous::Store {
public:
    Exchanged(int size, wires_exchange exchange) : size_(size), exchange_(exchange) {}

    void set(const std::string &key, const std::vector<char> &data) override
    {
        Entry mine = {};
        std::vector<Entry> all(static_cast<size_t>(size_));
        mine.keyBytes = key.copy(mine.key, sizeof(mine.key));
        mine.dataBytes = std::min(data.size(), sizeof(mine.data));
        std::copy_n(data.begin(), mine.dataBytes, mine.data);
        exchange_(&mine, sizeof(mine), all.data());
        for (const Entry &each : all) {
            values_[std::string(each.key, each.keyBytes)] =
                std::vector<char>(each.data, each.data + each.dataBytes);
        }
    }
    std::vector<char> get(const std::string &key) override { return values_.at(key); }
    void wait(const std::vector<std::string> &) override {}

private:
    struct Entry {
        size_t keyBytes, dataBytes;
        char key[64], data[8192];
    };
    int size_;
    wires_exchange exchange_;
    std::map<std::string, std::vector<char>> values_;
};

std::shared_ptr<gloo::rendezvous::Context> contexts[2]; // the second is polled
std::unique_ptr<gloo::Algorithm> algorithms[GLOO_WAYS];
float *ring_data;
size_t ring_count;

std::shared_ptr<gloo::rendezvous::Context> connect(int rank, int size, wires_exchange exchange,
                                                   bool is_busy)
{
    gloo::transport::tcp::attr place;
    place.iface = "lo";
    auto device = gloo::transport::tcp::CreateDevice(place);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->setTimeout(std::chrono::seconds(5));
    Exchanged store(size, exchange);
    context->connectFullMesh(store, device);
    for (int peer = 0; is_busy && peer < size; peer++) {
        if (peer != rank) {
            context->getPair(peer)->setSync(true, true);
        }
    }
    return context;
}

} // namespace

int wires_gloo_open(int rank, int size, wires_exchange exchange)
{
    try {
        contexts[0] = connect(rank, size, exchange, false);
        contexts[1] = connect(rank, size, exchange, true);
    } catch (const std::exception &error) {
        fprintf(stderr, "wires: gloo: %s\n", error.what());
        return 0;
    }
    return 1;
}

int wires_gloo_prepare(int way, float *data, size_t count)
{
    std::vector<float *> pointers = {data};
    auto &made = algorithms[way];
    made.reset();
    switch (way) {
    case GLOO_RING:
        ring_data = data;
        ring_count = count;
        return 1;
    case GLOO_CHUNKED:
        made.reset(
            new gloo::AllreduceRingChunked<float>(contexts[0], pointers, static_cast<int>(count)));
        return 1;
    case GLOO_HALVING:
        made.reset(new gloo::AllreduceHalvingDoubling<float>(contexts[0], pointers,
                                                             static_cast<int>(count)));
        return 1;
    default: // both ends write before they read: no more than the sockets hold
        if (count > 16384) {
            return 0;
        }
        made.reset(new gloo::AllreduceHalvingDoubling<float>(contexts[1], pointers,
                                                             static_cast<int>(count)));
        return 1;
    }
}

namespace {

void run(int way)
{
    if (way != GLOO_RING) {
        algorithms[way]->run();
        return;
    }
    gloo::AllreduceOptions options(contexts[0]);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(ring_data, ring_count);
    void (*sum)(void *, const void *, const void *, size_t) = &gloo::sum<float>;
    options.setReduceFunction(gloo::AllreduceOptions::Func(sum));
    gloo::allreduce(options);
}

} // namespace

int wires_gloo_run(int way)
{
    try {
        run(way);
    } catch (const std::exception &error) {
        fprintf(stderr, "wires: gloo: %s\n", error.what());
        return 0;
    }
    return 1;
}

void wires_gloo_close(void)
{
    for (auto &each : algorithms) {
        each.reset();
    }
    for (auto &each : contexts) {
        each.reset();
    }
}
