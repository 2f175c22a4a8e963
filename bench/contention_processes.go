package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// saleVariable tells a process that it is one of a sale's hosts; its value is the database's URL.
const saleVariable = "FIFTY_BENCH_SALE"

// The hosts of a sale.
const (
	saleHosts       = 8
	saleHostCallers = 32
)

// handHostPools are the pools that each host of the hand-written side is given: as many connections in all as
// handPools, shared out.
func handHostPools(hosts int) []int {
	var pools []int
	for _, connections := range handPools {
		if connections >= hosts {
			pools = append(pools, connections/hosts)
		}
	}
	return pools
}

var processCases = []Case{
	{
		Name: "processes-8x32",
		Goal: atLeast(14),
		What: "8 processes with 32 callers each reserve one unit of one SKU. Theirs: the one statement, in as many processes, at its best pool size for each.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			r, _, err := processes(ctx, b, saleHosts)
			return r.Median, err
		},
	},
	{
		Name: "processes-fairness",
		Goal: atLeast(0.7),
		What: "The same. The slowest process's orders against those of the quickest: the median of the rounds.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			_, fairness, err := processes(ctx, b, saleHosts)
			return median(fairness), err
		},
	},
}

// saleTask is what a host is told, a line of JSON each: to work for a time, by hand over so many connections, or
// by ours for 0.
type saleTask struct {
	Hand   int
	Length time.Duration
}

// saleDone is what it answers.
type saleDone struct {
	Ops  int64
	Took time.Duration
	Err  string
}

// saleProcess is the main function of a host.
func saleProcess(url string) int {
	ctx := context.Background()
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	sides := map[int]func(context.Context, int) error{}
	for in.Scan() { // until the parent ends
		var task saleTask
		if err := json.Unmarshal(in.Bytes(), &task); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			return exitUsage
		}
		if err := out.Encode(saleWork(ctx, url, task, sides)); err != nil {
			return exitShort
		}
	}
	return exitFine
}

func saleWork(ctx context.Context, url string, task saleTask, sides map[int]func(context.Context, int) error) saleDone {
	if sides[task.Hand] == nil {
		connections := task.Hand
		if connections == 0 {
			connections = 2
		}
		pool, err := connect(ctx, url, connections)
		if err != nil {
			return saleDone{Err: err.Error()}
		}
		sides[task.Hand] = saleSide(pool, task.Hand)
	}
	ran, err := slice(ctx, Side{Name: "host", Op: sides[task.Hand], Batch: 1}, saleHostCallers, task.Length, &histogram{})
	done := saleDone{Ops: ran.ops, Took: ran.took}
	if err != nil {
		done.Err = err.Error()
	}
	return done
}

func saleSide(pool *pgxpool.Pool, hand int) func(context.Context, int) error {
	if hand > 0 {
		return handOp(pool, handReserve, oneUnit)
	}
	stock := inventory.New(postgres.New(pool, postgres.Config{}).Stock(), inventory.Config{})
	return func(ctx context.Context, _ int) error {
		_, err := stock.Reserve(ctx, saleID(), inventory.Items{saleSKU: 1}, saleTTL)
		return err
	}
}

// saleHost is a host as its parent has it.
type saleHost struct {
	cmd   *exec.Cmd
	tasks io.WriteCloser
	done  *json.Decoder
}

func startSaleHosts(ctx context.Context, b *bench, url string, n int) ([]saleHost, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	hosts := make([]saleHost, n)
	for i := range hosts {
		cmd := exec.CommandContext(ctx, program)
		cmd.Env = append(os.Environ(), saleVariable+"="+url)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		b.Cleanup(func() error { // it ends when there are no more tasks
			_ = in.Close()
			return cmd.Wait()
		})
		hosts[i] = saleHost{cmd, in, json.NewDecoder(out)}
	}
	return hosts, nil
}

// together has all hosts do a task at once.
func together(hosts []saleHost, task saleTask) (perSecond float64, each []int64, err error) {
	for _, h := range hosts {
		if err := json.NewEncoder(h.tasks).Encode(task); err != nil {
			return 0, nil, err
		}
	}
	for _, h := range hosts {
		var done saleDone
		if err := h.done.Decode(&done); err != nil {
			return 0, nil, err
		}
		if done.Err != "" {
			return 0, nil, fmt.Errorf("a host: %s", done.Err)
		}
		each = append(each, done.Ops)
		perSecond += float64(done.Ops) / done.Took.Seconds()
	}
	return perSecond, each, nil
}

// processes is the sale of one SKU by n hosts. It returns the ratio, and how fair each round was.
func processes(ctx context.Context, b *bench, n int) (Ratio, []float64, error) {
	s, err := newSale(ctx, b, saleSupply, saleSKU)
	if err != nil {
		return Ratio{}, nil, err
	}
	hosts, err := startSaleHosts(ctx, b, s.url, n)
	if err != nil {
		return Ratio{}, nil, err
	}
	if err := settlePostgres(ctx, s.url); err != nil {
		return Ratio{}, nil, err
	}
	b.Explain("By hand:\n%s", handReserve)
	pools := handHostPools(n)
	sides := append([]int{0}, pools...)
	figures := make([]Figures, len(sides))
	var fairness []float64
	for round := range b.Rounds + 1 { // the first one warms up
		order := slices.Clone(sides)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, hand := range order {
			perSecond, each, err := together(hosts, saleTask{Hand: hand, Length: b.Slice})
			if err != nil {
				return Ratio{}, nil, err
			}
			if round == 0 {
				continue
			}
			at := slices.Index(sides, hand)
			figures[at].PerSecond = append(figures[at].PerSecond, perSecond)
			for _, n := range each {
				figures[at].Ops += n
			}
			if hand == 0 {
				fairness = append(fairness, float64(slices.Min(each))/float64(max(slices.Max(each), 1)))
			}
		}
		if round > 0 {
			b.progress("round %d of %d: %s", round, b.Rounds, latestRound(figures))
		}
	}
	figures[0].Name = "Combined"
	for i, hand := range pools {
		figures[i+1].Name = fmt.Sprintf("by hand, pools of %d", hand)
	}
	best := fastest(figures[1:], func(f Figures) float64 { return -median(f.PerSecond) })
	r := Ratio{Kind: "throughput", Workers: n * saleHostCallers, Ours: figures[0]}
	r.Theirs, r.Others = apart(figures[1:], best)
	r.Rounds = ratios(r.Ours.PerSecond, r.Theirs.PerSecond)
	r.Median = median(r.Rounds)
	b.measured(r)
	return r, fairness, nil
}
