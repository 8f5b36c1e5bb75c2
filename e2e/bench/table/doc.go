// Package table prints measurements for people: medians of ratios, each of which was taken within
// one round. It prints them as a table for the terminal, as Markdown and as JSON, and compares them
// with the goals. It measures nothing and starts nothing.
package table
