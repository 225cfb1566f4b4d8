package consume

import (
	"bufio"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

// printer writes records in the form that was asked for.
type printer struct {
	w      *bufio.Writer
	o      options
	json   bool
	layout *kgo.RecordFormatter
	buf    []byte
}

func newPrinter(a *app.App, o options) (*printer, error) {
	p := &printer{w: bufio.NewWriterSize(a.Out, 64<<10), o: o, json: a.JSON()}
	if o.layout != "" {
		f, err := kgo.NewRecordFormatter(o.layout)
		if err != nil {
			return nil, app.Usage("--layout: %v", err).Fix("see \"tidemark consume --help\" for layouts")
		}
		p.layout = f
	}
	return p, nil
}

func (p *printer) flush() error {
	if err := p.w.Flush(); err != nil {
		return app.Failed("write the output: %w", err)
	}
	return nil
}

func (p *printer) print(r *kgo.Record) error {
	p.buf = p.buf[:0]
	switch {
	case p.layout != nil:
		p.buf = p.layout.AppendRecord(p.buf, r)
	case p.json:
		line, err := json.Marshal(jsonOf(r))
		if err != nil {
			return app.Failed("write the output: %w", err)
		}
		p.buf = append(append(p.buf, line...), '\n')
	default:
		p.text(r)
	}
	if _, err := p.w.Write(p.buf); err != nil {
		return app.Failed("write the output: %w", err)
	}
	return nil
}

// text puts the asked-for columns before the value, separated by tabs.
func (p *printer) text(r *kgo.Record) {
	if p.o.offsets {
		p.buf = strconv.AppendInt(p.buf, int64(r.Partition), 10)
		p.buf = append(p.buf, '\t')
		p.buf = append(strconv.AppendInt(p.buf, r.Offset, 10), '\t')
	}
	if p.o.timestamps {
		p.buf = append(r.Timestamp.UTC().AppendFormat(p.buf, app.TimeLayout), '\t')
	}
	if p.o.headers {
		for i, h := range r.Headers {
			if i > 0 {
				p.buf = append(p.buf, ',')
			}
			p.buf = append(append(append(p.buf, h.Key...), '='), h.Value...)
		}
		p.buf = append(p.buf, '\t')
	}
	if p.o.keys {
		p.buf = append(append(p.buf, orNull(r.Key)...), '\t')
	}
	p.buf = append(append(p.buf, orNull(r.Value)...), '\n')
}

func orNull(b []byte) []byte {
	if b == nil {
		return []byte("null")
	}
	return b
}

// jsonRecord is one line of JSON output. Bytes that are no UTF-8 text stand in
// the _base64 field instead.
type jsonRecord struct {
	Topic       string       `json:"topic"`
	Partition   int32        `json:"partition"`
	Offset      int64        `json:"offset"`
	LeaderEpoch int32        `json:"leader_epoch"`
	Timestamp   int64        `json:"timestamp"`
	Key         *string      `json:"key"`
	KeyBase64   []byte       `json:"key_base64,omitempty"`
	Value       *string      `json:"value"`
	ValueBase64 []byte       `json:"value_base64,omitempty"`
	Headers     []jsonHeader `json:"headers"`
}

type jsonHeader struct {
	Key         string  `json:"key"`
	Value       *string `json:"value"`
	ValueBase64 []byte  `json:"value_base64,omitempty"`
}

func jsonOf(r *kgo.Record) jsonRecord {
	out := jsonRecord{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch,
		Timestamp: r.Timestamp.UnixMilli(), Headers: []jsonHeader{},
	}
	out.Key, out.KeyBase64 = textOrBase64(r.Key)
	out.Value, out.ValueBase64 = textOrBase64(r.Value)
	for _, h := range r.Headers {
		jh := jsonHeader{Key: h.Key}
		jh.Value, jh.ValueBase64 = textOrBase64(h.Value)
		out.Headers = append(out.Headers, jh)
	}
	return out
}

func textOrBase64(b []byte) (*string, []byte) {
	if b == nil {
		return nil, nil
	}
	if !utf8.Valid(b) {
		return nil, b
	}
	s := string(b)
	return &s, nil
}
