// Package report holds the results of a benchmark run and writes them: JSON with
// every single value, one Markdown table of medians and ratios, and SVG plots.
//
// A ratio is made of values from the same round of the same run; what is shown
// is the median of these ratios with the smallest and the largest. Nothing is
// compared across runs.
package report
