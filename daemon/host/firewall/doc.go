// Package firewall has the rules that polisd puts into the chain that Docker documents for rules of others,
// DOCKER-USER with network.docker_user, and the words and the state for a firewall that drops
// packets of agents. It runs iptables, the program that Docker itself uses: a rule then is of the kind (nf_tables or
// legacy) that the chain is of. It never makes, flushes or deletes a chain, and touches no rule without its comment.
package firewall
