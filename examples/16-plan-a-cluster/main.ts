import { planCluster } from './plan-a-cluster.js';

planCluster((line) => console.log(line));
