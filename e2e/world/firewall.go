package world

// DockerRules are Docker's, as iptables-nft writes them: the policy of the chain FORWARD is drop.
const DockerRules = `table ip filter {
	chain DOCKER-USER { counter return; }
	chain DOCKER-ISOLATION-STAGE-1 { counter return; }
	chain FORWARD { type filter hook forward priority filter; policy drop; jump DOCKER-USER; jump DOCKER-ISOLATION-STAGE-1; oifname "docker0" ct state related,established accept; iifname "docker0" accept; }
}
`

// UfwRules are those of ufw after "ufw enable" with its defaults, as iptables-nft writes them beside Docker's: incoming
// connections are dropped, outgoing ones are accepted, and what is forwarded passes ufw's chains.
const UfwRules = `table ip filter {
	chain ufw-before-input { iifname "lo" counter accept; ct state related,established counter accept; ct state invalid counter drop; ip protocol icmp counter accept; }
	chain ufw-user-input { meta l4proto tcp tcp dport 22 counter accept; }
	chain ufw-before-forward { ct state related,established counter accept; ip protocol icmp counter accept; }
	chain ufw-user-forward { }
	chain INPUT { type filter hook input priority filter; policy drop; counter jump ufw-before-input; counter jump ufw-user-input; }
	chain FORWARD { type filter hook forward priority filter; policy drop; counter jump ufw-before-forward; counter jump ufw-user-forward; }
	chain OUTPUT { type filter hook output priority filter; policy accept; }
}
`
