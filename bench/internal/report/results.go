package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Results of one run of the benchmark.
type Results struct {
	Date     time.Time         `json:"date"`
	Took     string            `json:"took"`
	Quick    bool              `json:"quick"`
	Box      map[string]string `json:"box"`
	Versions map[string]string `json:"versions"`
	// Settings of each system that differ from its defaults.
	Settings map[string][]string `json:"settings"`
	// Absent says why a system has no figures.
	Absent map[string]string `json:"absent,omitempty"`
	// Failed lists measures that ended with an error.
	Failed []string  `json:"failed,omitempty"`
	Series []*Series `json:"series"`
}

// Series is one figure of one system: a value for each round.
type Series struct {
	Row    string `json:"row"`  // P1, P2, ...
	Case   string `json:"case"` // what exactly
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
	System string `json:"system"`
	// Less is better: times, memory, CPU.
	Less   bool      `json:"lessIsBetter"`
	Values []float64 `json:"values"`
}

// Add appends a value to a series, which is made when it is not there yet.
func (r *Results) Add(s Series, value float64) {
	if old := r.Find(s.Row, s.Case, s.Metric, s.System); old != nil {
		old.Values = append(old.Values, value)
		return
	}
	s.Values = []float64{value}
	r.Series = append(r.Series, &s)
}

// Find returns a series or nil.
func (r *Results) Find(row, what, metric, system string) *Series {
	for _, s := range r.Series {
		if s.Row == row && s.Case == what && s.Metric == metric && s.System == system {
			return s
		}
	}
	return nil
}

// Median of the values; of an even number the mean of the middle two.
func Median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n == 0 {
		return 0
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}

// Spread is a median with the smallest and the largest value.
type Spread struct{ Median, Min, Max float64 }

// SpreadOf sums values up.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	return Spread{Median(values), slices.Min(values), slices.Max(values)}
}

// Ratio compares two series round by round; ok is false when there is nothing
// to compare.
func Ratio(a, b *Series) (s Spread, ok bool) {
	if a == nil || b == nil {
		return s, false
	}
	var ratios []float64
	for i := range min(len(a.Values), len(b.Values)) {
		if b.Values[i] > 0 {
			ratios = append(ratios, a.Values[i]/b.Values[i])
		}
	}
	return SpreadOf(ratios), len(ratios) > 0
}

// WriteJSON writes the results to dir/name.json.
func (r *Results) WriteJSON(dir, name string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".json"), append(b, '\n'), 0o644)
}

// ReadJSON reads what WriteJSON wrote.
func ReadJSON(path string) (*Results, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Results{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Figure formats a value with about three digits.
func Figure(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
