// Package table turns what was measured into what people read: medians of
// ratios that were each taken within one round, as a table for the terminal,
// as Markdown and as JSON, and the goals beside what was reached. It measures
// nothing and starts nothing.
package table
