import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.StringTokenizer;
import java.util.concurrent.ConcurrentHashMap;
import net.razorvine.pickle.Pickler;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.types.Decimal;

/** What saves calls between the JVM and Python while Spark plans a query; see planning.py. */
public class Planning {
    /**
     * Return an object that asks another one, an object of Python, only once for each of the answers
     * in `fixed`. A method that returns nothing may change them. Objects with the same text are equal.
     */
    public Object remember(Object asked, String text, String fixed) {
        Class type = asked.getClass();
        Set names = new HashSet(Arrays.asList(fixed.split(" ")));
        InvocationHandler handler = new Remembered(asked, text, names);
        return Proxy.newProxyInstance(type.getClassLoader(), type.getInterfaces(), handler);
    }

    /** Return the size of a scan, for Spark to choose how to join. */
    public Statistics statistics(final long numBytes, final long numRows) {
        return new Statistics() {
            public OptionalLong sizeInBytes() {
                return OptionalLong.of(numBytes);
            }

            public OptionalLong numRows() {
                return OptionalLong.of(numRows);
            }
        };
    }

    /** Return partitions of a scan: `pickled` contains one after the other, of these sizes. */
    public InputPartition[] partitions(byte[] pickled, String sizes) {
        StringTokenizer each = new StringTokenizer(sizes);
        InputPartition[] found = new InputPartition[each.countTokens()];
        int start = 0;
        for (int i = 0; i < found.length; i++) {
            int end = start + Integer.parseInt(each.nextToken());
            found[i] = new PythonInputPartition(i, Arrays.copyOfRange(pickled, start, end));
            start = end;
        }
        return found;
    }

    /** Return predicates as pickled tuples: a kind, and its name, value or parts. */
    public byte[] describe(Predicate[] predicates, int maxOperands) throws Exception {
        return new Pickler().dumps(described(predicates, maxOperands));
    }

    private Object[] described(Expression[] nodes, int maxOperands) {
        Object[] found = new Object[nodes.length];
        for (int i = 0; i < nodes.length; i++) {
            found[i] = described(nodes[i], maxOperands);
        }
        return found;
    }

    private Object[] described(Expression node, int maxOperands) {
        if (node instanceof Predicate && node.children().length <= maxOperands) {
            String name = ((Predicate) node).name();
            return new Object[] {"predicate", name, described(node.children(), maxOperands)};
        }
        if (node instanceof NamedReference) {
            return new Object[] {"field", ((NamedReference) node).fieldNames()};
        }
        if (node instanceof Literal) {
            return new Object[] {"literal", plain(((Literal) node).value())};
        }
        return new Object[] {"other"};
    }

    private Object plain(Object value) {
        if (value instanceof Decimal) {
            return ((Decimal) value).toJavaBigDecimal();
        }
        return value == null || value instanceof Boolean || value instanceof Number ? value : value.toString();
    }

    private static class Remembered implements InvocationHandler {
        private static final Object NULL = new Object();

        private final Object asked;
        private final String text;
        private final Set fixed;
        private final Map answers = new ConcurrentHashMap();

        Remembered(Object asked, String text, Set fixed) {
            this.asked = asked;
            this.text = text;
            this.fixed = fixed;
        }

        public Object invoke(Object self, Method method, Object[] args) throws Throwable {
            String name = method.getName();
            if (method.getDeclaringClass() == Object.class) {
                if (name.equals("equals")) {
                    return Boolean.valueOf(isEqual(args[0]));
                }
                return name.equals("hashCode") ? (Object) Integer.valueOf(text.hashCode()) : text;
            }
            if (!fixed.contains(name)) {
                Object answer = ask(method, args);
                if (method.getReturnType() == void.class) {
                    answers.clear();
                }
                return answer;
            }
            Object answer = answers.get(name);
            if (answer == null) {
                answer = ask(method, args);
                answers.put(name, answer == null ? NULL : answer);
            }
            return answer == NULL ? null : answer;
        }

        private boolean isEqual(Object other) {
            if (other == null || !Proxy.isProxyClass(other.getClass())) {
                return false;
            }
            Object handler = Proxy.getInvocationHandler(other);
            return handler instanceof Remembered && text.equals(((Remembered) handler).text);
        }

        private Object ask(Method method, Object[] args) throws Throwable {
            try {
                return method.invoke(asked, args);
            } catch (InvocationTargetException error) {
                throw error.getCause();
            }
        }
    }
}
