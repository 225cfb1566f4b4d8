package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Table collects rows and prints them in columns.
type Table struct {
	head []string
	rows [][]string
}

// NewTable starts a table with column titles. A title that starts with ">" is
// for numbers: its column is aligned to the right.
func NewTable(titles ...string) *Table { return &Table{head: titles} }

// Row adds a row; values are printed with fmt.
func (t *Table) Row(values ...any) {
	row := make([]string, len(values))
	for i, v := range values {
		row[i] = strings.ReplaceAll(fmt.Sprint(v), "\n", `\n`)
	}
	t.rows = append(t.rows, row)
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Print writes the table to Out.
func (a *App) Print(t *Table) {
	right := make([]bool, len(t.head))
	head := make([]string, len(t.head))
	for i, h := range t.head {
		head[i] = strings.TrimPrefix(h, ">")
		right[i] = head[i] != h
	}
	widths := make([]int, len(head))
	all := append([][]string{head}, t.rows...)
	for _, row := range all {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for _, row := range all {
		var line strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if right[i] {
				c, pad = pad+c, ""
			}
			line.WriteString(c + pad + "  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	fmt.Fprint(a.Out, b.String())
}

// Printf writes text to Out; commands use it only when not JSON.
func (a *App) Printf(format string, args ...any) { fmt.Fprintf(a.Out, format, args...) }

// Emit writes v to Out as one JSON document, indented.
func (a *App) Emit(v any) error {
	enc := json.NewEncoder(a.Out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return Failed("write the result: %w", err)
	}
	return nil
}

// Bytes prints a size for people.
func Bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f := float64(n)
	for i, u := range units {
		if f < 1024 || i == len(units)-1 {
			if i == 0 {
				return fmt.Sprintf("%d B", n)
			}
			return fmt.Sprintf("%.1f %s", f, u)
		}
		f /= 1024
	}
	return ""
}

// Ints prints ids as 1,2,3, or "-" for none.
func Ints(ids []int32) string {
	if len(ids) == 0 {
		return "-"
	}
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = fmt.Sprint(id)
	}
	return strings.Join(parts, ",")
}

// Plural returns "1 record", "2 records", "2 batches".
func Plural(n int64, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ch"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
