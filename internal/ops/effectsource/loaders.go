package effectsource

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/twmb/franz-go/pkg/kgo"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/tidemark-io/tidemark/consumer/quarantine"
	"github.com/tidemark-io/tidemark/internal/ops/logbounds"
)

// InboxQuery lists the effects that package consumer/effect remembers.
const InboxQuery = `SELECT topic, part AS "partition", off AS "offset" FROM tidemark_inbox WHERE scope = $1 AND topic <> '' AND off >= 0 ORDER BY topic, part, off`

// effectLine is one line of an effects file, and the value of a record of an
// effects topic.
type effectLine struct {
	Topic     string `json:"topic"`
	Partition *int32 `json:"partition"`
	Offset    *int64 `json:"offset"`
	Effect    *int64 `json:"effect"`
	Outcome   string `json:"outcome"`
}

func (l effectLine) row() (Row, error) {
	if l.Topic == "" || l.Partition == nil || l.Offset == nil && l.Effect == nil {
		return Row{}, fmt.Errorf(`an effect needs "topic", "partition" and "offset" (or "effect")`)
	}
	r := Row{Topic: l.Topic, Partition: *l.Partition, Effect: l.Effect, Outcome: l.Outcome}
	if l.Offset != nil {
		r.Offset = *l.Offset
	}
	return r, nil
}

func parse(text []byte) (Row, error) {
	var l effectLine
	if err := json.Unmarshal(text, &l); err != nil {
		return Row{}, err
	}
	return l.row()
}

// fromFile reads one JSON object a line.
func fromFile(path string) loader {
	return func(_ context.Context, _ string, add func(Row) error) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		sc := bufio.NewScanner(f)
		sc.Buffer(nil, 1<<20)
		for n := 1; sc.Scan(); n++ {
			if len(strings.TrimSpace(sc.Text())) == 0 {
				continue
			}
			row, err := parse(sc.Bytes())
			if err == nil {
				err = add(row)
			}
			if err != nil {
				return fmt.Errorf("%s, line %d: %w", path, n, err)
			}
		}
		return sc.Err()
	}
}

// fromSQL runs the query. The columns are found by their names.
func fromSQL(driver, dsn string, o Options) loader {
	return func(ctx context.Context, group string, add func(Row) error) error {
		db, err := sql.Open(driver, dsn)
		if err != nil {
			return err
		}
		defer db.Close()
		query, args := o.Query, []any{}
		if query == "" {
			query = InboxQuery
		}
		if strings.Contains(query, "$1") {
			args = append(args, group)
		}
		rows, err := db.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		for rows.Next() {
			var l effectLine
			into, err := targets(columns, &l)
			if err != nil {
				return err
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			row, err := l.row()
			if err != nil {
				return err
			}
			if err := add(row); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

func targets(columns []string, l *effectLine) ([]any, error) {
	into := make([]any, len(columns))
	for i, c := range columns {
		switch strings.ToLower(c) {
		case "topic":
			into[i] = &l.Topic
		case "partition", "part":
			into[i] = &l.Partition
		case "offset", "off":
			into[i] = &l.Offset
		case "effect":
			into[i] = &l.Effect
		case "outcome":
			into[i] = &l.Outcome
		default:
			into[i] = new(any)
		}
	}
	return into, nil
}

// fromTopic reads a topic of effect lines, or a quarantine topic, to the end that
// it has at the beginning.
func fromTopic(topic string, bounds logbounds.Client, dial []kgo.Opt) loader {
	return func(ctx context.Context, _ string, add func(Row) error) error {
		return ReadTopic(ctx, topic, bounds, dial, func(r *kgo.Record) error {
			row, err := fromRecord(r)
			if err == nil {
				err = add(row)
			}
			if err != nil {
				return fmt.Errorf("%s/%d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
			}
			return nil
		})
	}
}

// fromRecord takes the origin of a quarantined record, or the value of any other.
func fromRecord(r *kgo.Record) (Row, error) {
	o, ok, err := quarantine.Parse(r.Headers)
	if err != nil {
		return Row{}, err
	}
	if ok {
		return Row{Topic: o.Topic, Partition: o.Partition, Offset: o.Offset, Outcome: "quarantined"}, nil
	}
	return parse(r.Value)
}

// ReadTopic gives every record of a topic to each, from the log start to the end
// that each partition has when it begins. Unless all partitions can be read it gives
// none.
func ReadTopic(ctx context.Context, topic string, bounds logbounds.Client, dial []kgo.Opt, each func(*kgo.Record) error) error {
	logs, err := logbounds.Read(ctx, bounds, topic)
	if err == nil {
		err = logs.Err()
	}
	if err != nil {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	for _, partition := range logs.Topics[topic].Partitions {
		start, err := logs.Find(logs.LogStart, topic, partition)
		end, endErr := logs.Find(logs.LastStable, topic, partition)
		if err := cmp.Or(err, endErr); err != nil {
			return fmt.Errorf("%s/%d: %w", topic, partition, err)
		}
		if start.Offset < end.Offset {
			from[partition], left[partition] = kgo.NewOffset().At(start.Offset), end.Offset
		}
	}
	if len(left) == 0 {
		return nil
	}
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, dial...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(250*time.Millisecond))...)
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return err
		}
		err := drain(fetches, left, each)
		if err != nil {
			return err
		}
	}
	return nil
}

func drain(fetches kgo.Fetches, left map[int32]int64, each func(*kgo.Record) error) error {
	var failed error
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if p.Err != nil && failed == nil {
			failed = fmt.Errorf("%s/%d: %w", p.Topic, p.Partition, p.Err)
		}
		for _, r := range p.Records {
			end, open := left[p.Partition]
			if failed != nil || !open {
				return
			}
			if !r.Attrs.IsControl() && r.Offset < end {
				failed = each(r)
			}
			if r.Offset >= end-1 {
				delete(left, p.Partition)
			}
		}
	})
	return failed
}
